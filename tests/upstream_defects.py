"""Defects of code that came before ours, as data: what went wrong there, what it would be here, who would notice.

The first part is about the code that was published with the method and a benchmark built on it, the second about
libraries and servers that we stand on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """``line`` of the function at ``place`` made ``wrong`` brings it back, and each of ``tests`` fails."""

    place: str
    line: str
    wrong: str
    tests: tuple[str, ...]


def bug(place: str, line: str, wrong: str, *tests: str) -> Defect:
    """With the names of package and folder put before."""
    return Defect(f"crm.{place}", line, wrong, tuple(f"tests/{test}" for test in tests))


NOISE, ENCODING, VERDICTS = "dataset/test_noise.py", "model/test_encoding.py", "judges/test_verdicts.py"
CHECKPOINTING, PREDICTIONS = "training/test_checkpointing.py", "evaluation/test_prediction_file.py"
SPLITS, PUBLISHED = "votes/test_splits.py", "votes/own/test_published.py"
BAD_ROWS = "test_bad_rows_are_refused_with_file_line_field_and_reason"
DATAMODULE, LOADER = "training/test_datamodule.py", "model/batching/test_loader.py"

BEFORE_US: dict[str, Defect] = {
    "An evaluator shows a list of criteria as one bullet a character": bug(
        "model.encoding:system_text", "for criterion in bullets", "for criterion in str(list(bullets))",
        f"{ENCODING}::test_a_criterion_stays_one_bullet_in_its_own_script"),
    "A criterion that is one string is taken for a list of letters": bug(
        "votes.fields:_list_in",
        """raise RecordError(field, f'a string, not a list: {short(text)}; write it as ["..."]')""",
        "return list(text)",
        f"{PUBLISHED}::{BAD_ROWS}[criteria as one string]"),
    "Training and evaluation put prompts together in two ways": bug(
        "model.encoding:Encoder._ids_of", "if follows or ids", "if follows",
        "model/test_template.py::test_ids_are_those_of_the_exported_template"),
    "Text from a data file is evaluated as code": bug(
        "votes.fields:_python_literal", "ast.literal_eval(text)", "eval(text)",
        f"{PUBLISHED}::{BAD_ROWS}[criteria as code]"),
    "A pickle is loaded": bug(
        "training.checkpointing:SafeCheckpointIO.load_checkpoint", "weights_only=True", "weights_only=False",
        f"{CHECKPOINTING}::test_a_malicious_pickle_is_refused_and_does_not_run"),
    "A tie is read as a win of B": bug(
        "votes.own.published:_winner", "return WINNERS[value]", 'return "a" if value == "model_a" else "b"',
        f"{PUBLISHED}::test_the_criteria_stand_on_the_preferred_side_and_a_tie_stays_a_tie"),
    "A tie is trained and measured as a win of B": bug(
        "model.encoding:Encoder.encode", '"tie": 0.5', '"tie": 0.0',
        f"{ENCODING}::test_the_other_order_swaps_segments_and_target"),
    "A winner that nobody knows is a win of A": bug(
        "votes.own.published:_winner",
        """raise RecordError(field, f"{short(value)} is not one of {', '.join(WINNERS)}")""", 'return "a"',
        f"{PUBLISHED}::{BAD_ROWS}[an unknown winner]"),
    "Noise replaces the only criterion of a user": bug(
        "dataset.noise:_replace", "if n == 1 or not foreign", "if not foreign", f"{NOISE}::test_replace_by_hand"),
    "Noise that replaces does nothing for two criteria, or three": bug(
        "dataset.noise:_replace", "max(1, (n + 1) // 2 - 1)", "n // 2 - 1", f"{NOISE}::test_replace_by_hand"),
    "Noise writes into the criteria that it is given": bug(
        "dataset.noise:_replace", "kept = rng.sample(list(criteria), n - lost)",
        "kept = rng.sample(list(criteria), n - lost); criteria.extend(gained)",
        f"{NOISE}::test_3000_draws_leave_their_input_alone_are_never_empty_and_say_what_they_did"),
    "Noise takes the last criterion away": bug(
        "dataset.noise:_remove", 'Noised(tuple(criteria), "none")', 'Noised((), "remove", lost=1)',
        f"{NOISE}::test_remove_by_hand"),
    "Noise is drawn once for all epochs": bug(
        "dataset.noise:add_noise", "generator(seed, epoch, sample_id", "generator(seed, 0, sample_id",
        f"{NOISE}::test_random_is_each_operation_a_quarter_of_the_time_and_changes_with_the_epoch"),
    "The direction is drawn once for all epochs": bug(
        "dataset.comparisons:_drawn_side", "generator(seed, epoch, ", "generator(seed, 0, ",
        "dataset/test_comparisons.py::test_random_draws_both_sides_evenly_and_anew_in_each_epoch"),
    "Validation rows are noised like those of training": bug(
        "training.datamodule:PreferenceDataModule._make_validation", '"none"', "self.noise",
        f"{DATAMODULE}::test_noise_changes_training_and_never_validation"),
    "Rows are split, not prompts": bug(
        "votes.splits:split_records", "group_of[prompt_key(row.prompt)] for row", "row.id for row",
        f"{SPLITS}::test_500_splits_share_no_group_and_add_up"),
    "The rows that stop a training are those that are reported": bug(
        "votes.splits:check_disjoint", ', ("validation", "suites")', "",
        f"{SPLITS}::test_a_prompt_in_two_splits_is_found"),
    "Training shows the responses in one order only": bug(
        "model.batching.plans:draw_order", "< 0.5", "< 1.5",
        f"{LOADER}::test_orders_are_a_fair_coin_of_seed_epoch_and_id"),
    "Evaluation reads one order only": bug(
        "evaluation.prediction_file:SuiteFile.__init__", 'for order in ("ab", "ba")', 'for order in ("ab",)',
        f"{PREDICTIONS}::test_logits_are_about_the_records_response_a"),
    "Text that is not ASCII is escaped": bug(
        "model.encoding:_body", "{content}", "{ascii(content)[1:-1]}",
        f"{ENCODING}::test_non_ascii_text_costs_its_bytes_and_heads_keep_the_same_rows"),
    "The limit of length keeps other rows for one head than for another": bug(
        "model.encoding:Encoder.encode", "max(encoded.lengths)", "sum(encoded.lengths)",
        f"{ENCODING}::test_non_ascii_text_costs_its_bytes_and_heads_keep_the_same_rows"),
    "Rows that are too long go in silence": bug(
        "training.datamodule:PreferenceDataModule.survey", '"overlong": plan.overlong', '"overlong": 0',
        f"{DATAMODULE}::test_survey_accounts_for_every_row"),
    "An evaluation that goes on repeats rows": bug(
        "evaluation.prediction_file:SuiteFile.lacks", "not in self._done", "is not None",
        f"{PREDICTIONS}::test_a_killed_run_goes_on_as_if_it_had_not_been"),
    "An evaluation that goes on loses the rows of a batch that was cut": bug(
        "evaluation.prediction_file:SuiteFile._cut", "or any(map(self._judge.fits, lacking))", "",
        f"{PREDICTIONS}::test_a_killed_run_goes_on_as_if_it_had_not_been"),
    "Results of two checkpoints share a file": bug(
        "evaluation.prediction_file:_rows", "{row.fingerprint for row in rows} - {digest}", "set()",
        f"{PREDICTIONS}::test_a_file_of_another_run_is_refused_and_untouched"),
    "The name of a result says nothing of the model": bug(
        "evaluation.prediction_file:reading_digest", "[judge_digest, *rows]", "rows",
        f"{PREDICTIONS}::test_the_fingerprint_names_model_template_and_every_character"),
    "A control token in a response becomes a real one": bug(
        "model.encoding:Encoder._tokenize", "split_special_tokens=True", "split_special_tokens=False",
        f"{ENCODING}::test_data_never_becomes_a_control_token"),
    "A control token in a response becomes a real one in a reward model of a hub": bug(
        "judges.control_tokens:ControlTokens.ids", "not any(self._pattern", "True or any(self._pattern",
        "judges/test_hub_reward_model.py::test_no_control_token_comes_from_data"),
    "The token that pads is the one that ends, so the wrong one is read": bug(
        "model.backbone:_settle_padding", " or tokenizer.pad_token in (tokenizer.eos_token, TURN_END)", "",
        "model/test_backbone.py::test_a_pad_token_that_ends_texts_is_refused"),
    "A language model passes for a reward model, its head drawn at random": bug(
        "judges.hub_files:load_weights", "if unfit:", "if False:",
        "judges/test_hub_reward_model.py::test_what_is_no_reward_model_is_refused"),
    "A checkpoint without a head gets a random one": bug(
        "model.export:load_checkpoint", "if unfit:", "if False:",
        "model/test_export.py::test_weights_of_another_head_are_refused_not_drawn_at_random"),
    "Logits in bfloat16 are equal where responses are not": bug(
        "model.reward_model:read_head", "linear(states.float(), score.weight.float())",
        "linear(states.bfloat16(), score.weight.bfloat16()).float()",
        "model/test_heads.py::test_close_responses_do_not_tie_under_bfloat16"),
    "A judge that calls a tie is counted as wrong": bug(
        "report.statistics:correctness", "(np.sign(_signed(logits, labels)) + 1) / 2", "_signed(logits, labels) > 0",
        "report/test_statistics.py::test_losses_by_hand"),
    "A reward that is no number pays a half": bug(
        "rewards.scoring:_finite", "else None", "else 0.5",
        "rewards/test_scoring.py::test_a_score_that_is_no_number_is_no_reward"),
    "A completion that nobody could read pays a half in training": bug(
        "rewards.rl.trl:_in_rows", "[None] * count", "[0.5] * count",
        "rewards/rl/test_trl.py::test_what_a_judge_cannot_read_has_no_reward_and_is_counted"),
    "A reply without a verdict counts as A": bug(
        "judges.verdicts:read_verdict", "return None, _why_not(text, lines[-1])", 'return "first", None',
        "judges/test_llm_judge.py::test_a_reply_without_a_verdict_is_a_failure_and_never_a_preference"),
    "'Answer B is better' is read as A": bug(
        "judges.verdicts:read_verdict", "return None, _why_not(text, lines[-1])",
        'return ("first" if "A" in lines[-1] else "second"), None',
        f"{VERDICTS}::test_replies_sorted_by_hand"),
    "The best of k is that of the first k, so that their order decides": bug(
        "rewards.best_of_n.estimator:best_of_k",
        "np.stack([_of_query(row, ks) for row in np.asarray(scores, dtype=np.float64)])", "first_k(scores, ks)",
        "rewards/best_of_n/test_estimator.py::test_it_equals_enumeration_with_ties_and_unread_responses"),
}  # fmt: skip

BELOW_US: dict[str, Defect] = {
    "A loader that goes on in mid-epoch begins the epoch again": bug(
        "model.batching.loader:TrainLoader.load_state_dict", 'int(state["next_batch"])', "0",
        f"{LOADER}::test_resuming_anywhere_gives_exactly_the_remaining_batches"),
    "Random states stay behind when a run goes on": bug(
        "training.rank_state:restore_state", 'torch.set_rng_state(own["torch"])', "pass",
        "training/test_lit_module.py::test_random_state_travels_with_the_checkpoint"),
    "A loss that is no number trains on": bug(
        "training.lit_module:LitRewardModel.training_step", "if not torch.isfinite(objective):", "if False:",
        "training/test_lit_module.py::test_a_loss_that_is_not_finite_stops_the_run_with_the_step_named"),
    "A flipped bit of a checkpoint is loaded": bug(
        "training.checkpointing:is_whole", "return bool(known) and", "return True or",
        f"{CHECKPOINTING}::test_any_flipped_bit_is_found"),
    "A flipped bit of a published model is loaded": bug(
        "model.manifest:check_files", " or sha256(folder / name) != expected", "",
        "model/test_export.py::test_a_damaged_file_is_named"),
    "A full disk takes the last checkpoint along": bug(
        "training.checkpointing:SafeCheckpointIO.save_checkpoint", 'target.with_name(f".{target.name}.tmp")', "target",
        f"{CHECKPOINTING}::test_a_full_disk_leaves_the_last_good_checkpoint"),
    "A cache gives one model the answers of another": bug(
        "io.chat.cache:request_key", '"parameters": endpoint.parameters(),', '"parameters": 0,',
        "io/chat/test_cache.py::test_the_key_changes_with_what_shapes_a_reply"),
    "A completion without text passes for an answer": bug(
        "io.chat.replies:Completion.text", "if not content.strip():", "if False:",
        "io/chat/test_faults.py::test_each_fault_has_its_kind_and_its_price"),
    "A body of any size is read by the server": bug(
        "web.body_limit:BodyLimit.__call__", "limit = self._most(scope[\"path\"])", "limit = 10**9",
        "web/test_body_limit.py::test_each_path_has_its_limit_and_a_length_that_lies_changes_nothing"),
    "Text of data is markup in a report": bug(
        "report.report:_table", "escape=True", "escape=False",
        "report/test_report.py::test_hostile_text_is_shown_and_never_markup"),
    "A cell of a table is a formula": bug(
        "report.tables:_csv_cell", 'text.startswith("\\n") or text.lstrip().startswith(_FORMULA)', "False",
        "report/test_tables.py::test_formulas_are_neutralised_and_numbers_are_not"),
}  # fmt: skip

DEFECTS = BEFORE_US | BELOW_US
