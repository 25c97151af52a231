"""Takes each fix of the adversarial trial out of a copy of the tree: its test must fail there.

    python tools/without_fixes.py --out results/probes/probes.json [--only WORD]

A row names the probe, the file, the text that is the fix, what stands there without it, and the test. A test that ends
by a signal or does not end at all has failed too. First all tests run in the copy with every fix: they must pass.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 300  # a test at most
_INDEX, _MODELS = "tests/engine/test_untrusted_index.py", "tests/models/test_untrusted_models.py"
_SESSIONS, _SECURITY = "tests/serve/test_serve_hostile_sessions.py", "tests/serve/test_serve_security.py"
_HTTP, _MCP = "tests/serve/test_http_server.py", "tests/serve/test_serve_mcp.py"
_CLI, _READ = "tests/test_cli.py", "tests/reader/test_commands.py"
_FAIR = "tests/reader/test_fair_threads.py"
_DOCTOR = "tests/engine/opensearch/test_opensearch_doctor.py"


@dataclass(frozen=True, slots=True)
class Fix:
    probe: str
    file: str  # below src/orienteer
    text: str
    without: str
    test: str


FIXES = (
    # Index files
    Fix("an array of Python objects", "engine/embedded/store.py", " or dtype not in ARRAYS[array]", "",
        f"{_INDEX}::test_an_array_of_a_type_that_is_not_in_the_table_is_refused"),
    Fix("an array that no index has", "engine/embedded/store.py", "array not in ARRAYS or dtype not in ARRAYS[array]",
        "array in ARRAYS and dtype not in ARRAYS[array]",
        f"{_INDEX}::test_a_file_that_is_not_in_the_table_is_refused"),
    Fix("offsets and numbers out of range", "engine/embedded/index.py",
        "        check_structure(manifest.counts, arrays)\n", "",
        f"{_INDEX}::test_a_value_out_of_range_is_refused_at_opening"),
    Fix("arrays that are too short", "engine/embedded/structure.py", "    _check_lengths(counts, arrays)\n", "",
        f"{_INDEX}::test_an_array_that_is_too_short_is_refused_at_opening"),
    Fix("`id_slots` without an end", "engine/embedded/structure.py",
        '    _check_id_slots(arrays["id_slots"], counts["passages"])\n', "",
        f"{_INDEX}::test_a_table_of_ids_without_a_free_slot_is_refused_instead_of_searched_for_ever"),
    Fix("`documents`, codes and windows out of range", "engine/embedded/index.py",
        "if self._checked[numbers].all():", "if True:",
        f"{_INDEX}::test_a_list_with_a_value_out_of_range_is_refused_when_a_query_names_its_term"),
    Fix("`stream` with terms that do not exist", "engine/embedded/index.py",
        'if not streams.is_sound(stream, self.array("stream_ends"), *coding):', "if False:",
        f"{_INDEX}::test_a_stream_of_terms_that_do_not_exist_is_refused_where_it_is_used"),
    Fix("links in the place of files", "data/regular_files.py", "_READ | (0 if follow_links else os.O_NOFOLLOW)",
        "_READ", f"{_INDEX}::test_links_and_pipes_in_the_place_of_files_are_refused_at_once"),
    Fix("pipes in the place of files", "data/regular_files.py", "if not stat.S_ISREG(kind):", "if False:",
        f"{_INDEX}::test_links_and_pipes_in_the_place_of_files_are_refused_at_once"),
    Fix("a planted link that is written through", "data/regular_files.py",
        "os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW", "os.O_CREAT | os.O_CLOEXEC",
        f"{_INDEX}::test_a_planted_link_is_never_written_through"),
    Fix("a planted link under a temporary name", "data/atomic.py", 'partial.open("xb")', 'partial.open("wb")',
        "tests/data/test_atomic.py::test_a_link_under_the_temporary_name_is_refused"),
    Fix("a manifest of a gigabyte", "data/regular_files.py", "> largest:", "> 1 << 60:",
        f"{_INDEX}::test_a_manifest_of_a_gigabyte_is_refused_unread"),
    # Model folders
    Fix("cut tensors", "models/checks.py", "if found.shape != shape:", "if False:",
        f"{_MODELS}::test_every_tensor_that_is_cut_grown_or_missing_is_refused"),
    Fix("zero heads and other numbers", "models/checks.py", "type(value) is not int or not low <= value <= high",
        "False", f"{_MODELS}::test_a_number_that_does_not_fit_the_weights_is_refused"),
    Fix("tokens beyond the word table", "models/checks.py", "if len(ids) > rows:", "if False:",
        f"{_MODELS}::test_tokens_beyond_the_word_table_are_refused"),
    Fix("an input beyond a table", "models/bert_encoder.py", "if count > rows:", "if False:",
        f"{_MODELS}::test_an_input_without_a_row_in_a_table_never_reaches_the_encoder"),
    Fix("broken tokenizers", "models/checks.py", "except BaseException as error:", "except ZeroDivisionError as error:",
        f"{_MODELS}::test_a_broken_tokenizer_is_one_clear_error"),
    Fix("a number of another type in T5's layout", "agents/t5/rendering.py", "        check_layout(layout)\n", "",
        f"{_MODELS}::test_a_layout_of_t5_with_another_type_of_number_is_refused"),
    Fix("a value of another type in MuZero's configuration", "agents/muzero/config.py",
        "        check_fields(config)\n", "",
        f"{_MODELS}::test_a_configuration_of_muzero_with_another_type_of_value_is_refused"),
    # Sessions and gallery
    Fix("a loaded session with `hits=2000`", "serve/sessions.py",
        "            if number > limit:\n                return f\"this session",
        "            if False:\n                return f\"this session",
        f"{_SESSIONS}::test_a_loaded_session_obeys_the_limits_of_the_server"),
    Fix("lone surrogates", "session/record.py", "if _has_surrogate_escape(line):", "if False:",
        f"{_SESSIONS}::test_what_no_record_holds_is_refused_at_the_door"),
    Fix("numbers of 400 digits", "session/record.py", "if len(digits) > 18:", "if False:",
        f"{_SESSIONS}::test_what_no_record_holds_is_refused_at_the_door"),
    Fix("deep JSON", "session/record.py", "    except RecursionError:\n        raise RecordError(\"not the record",
        "    except ZeroDivisionError:\n        raise RecordError(\"not the record",
        f"{_SESSIONS}::test_what_no_record_holds_is_refused_at_the_door"),
    Fix("wrong types", "session/record.py",
        "except (KeyError, TypeError, ValueError, AttributeError, OrienteerError) as error:",
        "except ZeroDivisionError as error:",
        f"{_SESSIONS}::test_what_no_record_holds_is_refused_at_the_door"),
    Fix("a bad file in a list", "serve/sessions.py", "except (OSError, RecordError):", "except OSError:",
        f"{_SESSIONS}::test_one_bad_file_breaks_no_list"),
    Fix("a bad record in the gallery", "serve/gallery.py",
        "except (OrienteerError, KeyError, ValueError) as error:", "except ZeroDivisionError as error:",
        "tests/serve/test_serve_gallery.py::test_one_bad_record_is_left_out_and_the_others_are_shown"),
    Fix("concurrent saves", "data/atomic.py", "{secrets.token_hex(6)}", "same",
        f"{_SESSIONS}::test_concurrent_saves_of_one_session_all_succeed"),
    Fix("many large loads", "serve/sessions.py", " or total > self._limits.memory:", ":",
        f"{_SESSIONS}::test_loads_are_bounded_by_bytes_and_displace_the_large_not_the_small"),
    Fix("too many sessions", "serve/sessions.py", "_idle_time(now) if too_many else _idle_bytes(now)",
        "_idle_bytes(now)",
        f"{_SESSIONS}::test_too_many_sessions_displace_the_one_used_longest_ago_whatever_its_size"),
    Fix("a refused ask that displaces somebody", "serve/sessions.py",
        "        self._check_running()\n        return ServedSession(",
        "        self._keep(ServedSession(_new_id(), index, '', configured.settings, question))\n"
        "        self._check_running()\n        return ServedSession(",
        f"{_SESSIONS}::test_a_refused_ask_displaces_nobody"),
    Fix("`branch` and `refine` of one session at one time", "serve/sessions.py",
        "            with self._exclusive(served):\n                await self._in_time(self._replay(served))\n",
        "            await self._in_time(self._replay(served))\n",
        f"{_SESSIONS}::test_a_branch_is_refused_while_a_session_is_played_again"),
    Fix("a refinement without a deadline", "serve/sessions.py", "async with asyncio.timeout(self._limits.deadline):",
        "async with asyncio.timeout(None):", f"{_SESSIONS}::test_a_refinement_that_takes_too_long_changes_nothing"),
    Fix("a client that has gone", "serve/session_routes.py", "asyncio.wait({working, leaving}",
        "asyncio.wait({working}",
        f"{_SESSIONS}::test_the_work_of_a_client_that_has_gone_stops"),
    Fix("a passage of a megabyte", "reader/encoding.py", " and len(starts) < MAX_WINDOWS", "",
        f"{_MODELS}::test_a_passage_of_a_megabyte_makes_no_more_windows_than_a_reader_reads"),
    Fix("a step that reads a hundred passages", "serve/session_worker.py",
        '        if job.settings.hits > _QUICK_PASSAGES:\n            return "slow"\n', "",
        f"{_SESSIONS}::test_a_step_that_takes_long_does_not_hold_up_the_quick_ones"),
    Fix("a click behind an agent", "serve/session_worker.py",
        ' if isinstance(job.session, Question) else "clicks"', "",
        f"{_SESSIONS}::test_a_click_does_not_wait_for_agents_whose_time_is_not_known_yet"),
    Fix("a question behind a quick agent's step", "serve/session_worker.py", '"quick": 2', '"quick": 1',
        f"{_SESSIONS}::test_a_question_does_not_wait_for_the_step_of_an_agent_that_is_quick"),
    Fix("a click behind another user's click", "serve/session_worker.py", '"clicks": 2', '"clicks": 1',
        f"{_SESSIONS}::test_a_click_does_not_wait_for_another_users_click"),
    Fix("five passages behind another user's hundred", "reader/fair_threads.py", "now + place * _SPACING", "0.0",
        f"{_FAIR}::test_a_reader_reads_a_few_passages_before_the_rest_of_another_callers_many"),
    Fix("the same, of a reader's bi-encoder", "reader/fair_threads.py", "now + place * _SPACING", "0.0",
        f"{_FAIR}::test_a_bi_encoder_encodes_a_few_texts_before_the_rest_of_another_callers_many"),
    Fix("a hundred passages behind everybody's five", "reader/fair_threads.py", "now + place * _SPACING",
        "float(place)",
        f"{_FAIR}::test_many_rows_come_before_what_is_sent_much_later"),
    Fix("a model that keeps the cores from the threads that answer", "serve/priority.py", " + _LOWER", "",
        "tests/serve/test_serve_priority.py::test_a_served_reader_computes_at_a_lower_priority"),
    Fix("a large session in the event loop", "serve/session_routes.py",
        " if served.size <= _SMALL else await asyncio.to_thread(show)", "",
        f"{_SESSIONS}::test_a_large_session_is_shown_beside_the_event_loop"),
    # Server
    Fix("44 ms on a kept connection", "serve/http_server.py",
        "    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n", "",
        f"{_HTTP}::test_an_answer_on_a_kept_connection_does_not_wait_for_a_delayed_acknowledgement"),
    Fix("a head that never comes whole", "serve/http_server.py", "if self._waits_for != what:", "if False:",
        f"{_HTTP}::test_a_head_that_never_comes_whole_ends_the_connection_and_says_why"),
    Fix("a body that never comes whole", "serve/http_server.py", "if self._waits_for != what:", "if False:",
        f"{_HTTP}::test_a_body_that_never_comes_whole_ends_the_connection"),
    Fix("200 half-sent requests", "serve/http_server.py",
        "if len(self.connections) > self._most and self._displaces_itself():", "if False:",
        f"{_HTTP}::test_half_sent_requests_beyond_the_cap_displace_each_other_and_nobody_else"),
    Fix("the limit of open files", "serve/http_server.py",
        "            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))\n", "            pass\n",
        f"{_HTTP}::test_the_limit_of_open_files_is_raised"),
    Fix("control characters in the access log", "serve/metrics.py",
        'scope["path"].encode("unicode_escape").decode()', 'scope["path"]',
        f"{_SECURITY}::test_the_access_log_has_one_line_a_request_and_no_control_character"),
    Fix("control characters in any log line", "commands/serving.py",
        'return printable(super().formatMessage(record).replace("\\n", "\\\\n"))',
        "return super().formatMessage(record)",
        f"{_SECURITY}::test_a_log_line_with_control_characters_is_escaped_whoever_wrote_it"),
    Fix("control characters on the terminal", "commands/terminal.py",
        'c if c.isprintable() or c == "\\n" else " "', "c",
        f"{_CLI}::test_control_characters_of_a_passage_do_not_reach_the_terminal"),
    Fix("control characters of `read`", "commands/terminal.py", 'c if c.isprintable() or c == "\\n" else " "', "c",
        f"{_READ}::test_read_shows_no_control_character"),
    Fix("control characters of `doctor`", "commands/terminal.py", 'c if c.isprintable() or c == "\\n" else " "', "c",
        f"{_DOCTOR}::test_doctor_shows_no_control_character_and_no_markup_of_the_service"),
    Fix("control characters of `--json`", "commands/terminal.py",
        '_OBEYED.sub(lambda found: f"\\\\u{ord(found[0]):04x}", line.rstrip("\\n"))', 'line.rstrip("\\n")',
        f"{_CLI}::test_control_characters_of_a_passage_do_not_reach_the_terminal"),
    Fix("markup in paths and titles", "commands/terminal.py", "return escape(printable(text))",
        "return printable(text)", f"{_CLI}::test_markup_in_a_path_is_not_interpreted"),
    Fix("a malformed `Origin`", "serve/security.py", "    except ValueError:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
        f"{_SECURITY}::test_a_malformed_origin_is_refused_not_a_failure"),
    Fix("refusals without security headers", "serve/security.py",
        "    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]\n", "",
        f"{_SECURITY}::test_refusals_and_failures_carry_the_security_headers"),
    Fix("labels of metrics without a bound", "serve/metrics.py", ' if scope["method"] in _METHODS else "other"', "",
        f"{_SECURITY}::test_metrics_of_invented_methods_are_one_series"),
    Fix("MCP: sessions that do not expire", "serve/mcp.py", "session_idle_timeout=_IDLE, ", "",
        f"{_MCP}::test_sessions_over_http_end_when_nobody_uses_them_and_are_bounded"),
    Fix("MCP: no limit of running agents", "serve/mcp.py", "if running >= limits.running:", "if False:",
        f"{_MCP}::test_more_research_than_allowed_is_told_to_come_back"),
    Fix("MCP: ids that are not marked", "serve/mcp.py", "untrusted_id", "id",
        f"{_MCP}::test_passages_are_marked_as_untrusted"),
)  # fmt: skip


def check_with_all(fixes: Sequence[Fix], tree: Path) -> None:
    """The control: with every fix, all tests pass in the copy."""
    done = _pytest(sorted({fix.test for fix in fixes}), tree, SECONDS * len(fixes))
    if done.returncode:
        sys.exit(f"a test fails with its fix: {done.stdout[-2000:]}")


def _pytest(tests: Sequence[str], tree: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds)


def failed_without(fix: Fix, tree: Path) -> str:
    """How the test ended without the fix: "failed", "did not end", or "" where it passed."""
    file = tree / "src" / "orienteer" / fix.file
    text = file.read_text()
    if fix.text not in text:
        sys.exit(f"{fix.file} has no {fix.text!r}: this list is out of date")
    file.write_text(text.replace(fix.text, fix.without))
    try:
        done = _pytest([fix.test], tree, SECONDS)
    except subprocess.TimeoutExpired:
        return "did not end"
    finally:
        file.write_text(text)
    if done.returncode in (2, 3, 4, 5):  # pytest did not get to the test
        sys.exit(f"{fix.test}: {done.stdout[-2000:]}")
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    return "failed" if done.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="only probes with this word")
    parser.add_argument("--control", action="store_true", help="only the control: all tests with every fix")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        tree.mkdir()
        for part in ("src", "tests", "benchmarks"):
            shutil.copytree(ROOT / part, tree / part)
        shutil.copy(ROOT / "pyproject.toml", tree)
        chosen = [fix for fix in FIXES if given.only in fix.probe]
        check_with_all(chosen, tree)
        print(f"with every fix all tests of {len(chosen)} probes pass", flush=True)
        for fix in [] if given.control else chosen:
            ended = failed_without(fix, tree)
            rows.append({"probe": fix.probe, "test": fix.test, "without_the_fix": ended or "passed"})
            print(f"{rows[-1]['without_the_fix']}: {fix.probe}", flush=True)
            if given.out:
                given.out.parent.mkdir(parents=True, exist_ok=True)
                given.out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    sys.exit(any(row["without_the_fix"] == "passed" for row in rows))


if __name__ == "__main__":
    main()
