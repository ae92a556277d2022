"""Whatever a person gets wrong ends in a sentence, a way out and a non-zero exit; never in a traceback."""

import click
import pytest

# what was typed, the exit code, and words of the message: what is wrong, then the way out
WRONG = [
    (["status"], 1, ["No peer is running", "peer run"]),
    (["peers"], 1, ["No peer is running", "--data"]),
    (["route", "alerts"], 1, ["No peer is running", "peer run"]),
    (["leave"], 1, ["No peer is running", "peer run"]),
    (["enroll", "lamp"], 1, ["no cluster's CA", "peer init"]),
    (["revoke", "lamp"], 1, ["no cluster's CA", "peer init"]),
    (["run"], 1, ["no identity", "peer enroll", "--insecure"]),
    (["run", "--join", "nowhere"], 2, ["--join", "'nowhere' is not host:port", "192.168.1.20:4000"]),
    (["run", "--join", "host:70000"], 2, ["--join", "is not host:port"]),
    (["run", "--listen", "::1"], 2, ["--listen", "[::1]:4000"]),
    (["run", "--zone", "two words"], 2, ["--zone", "no spaces"]),
    (["run", "--zone", "z" * 65], 2, ["--zone", "64 bytes"]),
    (["run", "--virtual", "17"], 2, ["--virtual", "1<=x<=16"]),
    (["run", "--slots", "0"], 2, ["--slots", "1<=x<=65535"]),
    (["run", "--memory", "much"], 2, ["--memory", "not a valid integer"]),
    (["run", "--log", "xml"], 2, ["--log", "text", "json"]),
    (["run", "--insecure", "--listen", "192.0.2.1:0"], 1, ["192.0.2.1", "127.0.0.1"]),
    (["enroll"], 2, ["Missing argument 'NAME'"]),
    (["enroll", "lamp", "--role", "king"], 2, ["--role", "device", "operator", "viewer"]),
    (["status", "-o", "yaml"], 2, ["-o", "table", "json"]),
    (["doctor", "--listen", "here"], 2, ["--listen", "host:port"]),
    (["fly"], 2, ["No such command 'fly'"]),
    (["completion", "tcsh"], 2, ["bash", "zsh", "fish"]),
    (["demo", "--peers", "2"], 2, ["--peers", "3<=x<=24"]),
    (["sim", "ring", "--peers", "1"], 2, ["--peers"]),
    (["sim", "deploy", "--apps", "5,many"], 1, ["--apps", "5,many"]),
    (["sim", "spread", "--peers", "4", "--zones", "9"], 1, ["cannot fill 9 zones"]),
    (["sim", "ring", "--peers", "4", "--keys", "1", "--latency", "planetlab"], 1, ["--latency-file"]),
]


@pytest.mark.parametrize(("typed", "code", "words"), WRONG, ids=[" ".join(it[0])[:40] for it in WRONG])
def test_wrong_words(peer, tmp_path, typed, code, words):
    result = peer(*typed, env={"SHOAL_DATA": str(tmp_path)})
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert [word for word in words if word not in result.output] == []


def test_a_cluster_is_not_overwritten(peer, tmp_path):
    assert peer("init", "--data", tmp_path).exit_code == 0
    again = peer("init", "--data", tmp_path)
    assert again.exit_code == 1
    assert "already" in again.output


@pytest.mark.parametrize("name", ["../escape", "", "a" * 62, "line\nbreak"])
def test_names_that_no_certificate_can_carry(peer, tmp_path, name):
    peer("init", "--data", tmp_path)
    result = peer("enroll", name, "--data", tmp_path)
    assert result.exit_code == 1, result.output
    assert "Cannot enrol" in result.output
    assert isinstance(result.exception, SystemExit)


def test_revoking_a_stranger_names_those_who_are_known(peer, tmp_path):
    peer("init", "--data", tmp_path)
    peer("enroll", "lamp", "--data", tmp_path)
    result = peer("revoke", "lmap", "--data", tmp_path)
    assert result.exit_code == 1
    assert "lamp" in result.output


def test_revoking_without_a_running_peer_says_how_to_spread_it(peer, tmp_path):
    peer("init", "--data", tmp_path)
    peer("enroll", "lamp", "--data", tmp_path)
    result = peer("revoke", "lamp", "--data", tmp_path)
    assert result.exit_code == 0
    assert "--through" in result.output


def test_a_damaged_ca_is_a_sentence(peer, tmp_path):
    peer("init", "--data", tmp_path)
    (tmp_path / "authority" / "ca.pem").write_text("rubbish")
    result = peer("enroll", "lamp", "--data", tmp_path)
    assert (result.exit_code, "damaged" in result.output) == (1, True)


@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
@pytest.mark.parametrize("content", [None, "rubbish"])
def test_a_peer_with_a_lost_or_damaged_identity_does_not_start(peer, tmp_path, name, content):
    peer("init", "--data", tmp_path)
    peer("enroll", "lamp", "--data", tmp_path, "--out", tmp_path / "lamp")
    (tmp_path / "lamp" / name).unlink()
    if content:
        (tmp_path / "lamp" / name).write_text(content)
        (tmp_path / "lamp" / name).chmod(0o600)
    result = peer("run", "--data", tmp_path / "lamp")
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert len(result.output.splitlines()) == 2


def test_an_address_that_this_machine_does_not_have(peer, tmp_path):
    peer("init", "--data", tmp_path)
    peer("enroll", "lamp", "--data", tmp_path, "--out", tmp_path / "lamp")
    result = peer("run", "--data", tmp_path / "lamp", "--listen", "203.0.113.1:0")
    assert (result.exit_code, "no such address" in result.output) == (1, True)


def test_a_data_folder_that_is_a_file(peer, tmp_path):
    (tmp_path / "file").touch()
    assert peer("status", "--data", tmp_path / "file").exit_code == 2
    below = peer("init", "--data", tmp_path / "file" / "below")
    assert (below.exit_code, "Choose another folder" in below.output) == (1, True)


def test_a_path_too_long_for_a_socket(peer, tmp_path):
    result = peer("status", "--data", tmp_path / ("x" * 120))
    assert (result.exit_code, "too long" in result.output) == (1, True)


def test_every_flag_has_a_variable_and_a_help(peer):
    from peer.cli import VERBS, cli

    context = click.Context(cli, info_name="peer", auto_envvar_prefix="SHOAL")
    for name in VERBS:
        command = cli.get_command(context, name)
        assert command is not None
        commands = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in commands:
            for option in each.params:
                if isinstance(option, click.Option):
                    assert option.help, f"{name} {option.opts} says nothing about itself"
                    assert option.show_envvar, f"{name} {option.opts} hides its variable"


def test_a_flag_may_come_from_the_environment(peer, tmp_path):
    result = peer("run", env={"SHOAL_DATA": str(tmp_path), "SHOAL_RUN_JOIN": "nowhere"})
    assert (result.exit_code, "'nowhere' is not host:port" in result.output) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(peer, shell):
    result = peer("completion", shell)
    assert result.exit_code == 0
    assert "_PEER_COMPLETE" in result.stdout


def test_version(peer):
    assert peer("--version").stdout.startswith("shoal ")
