"""`fedslim member`: a member of a federation over a network."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedslim.cli.commands import serve
from fedslim.cli.console import options, passphrases
from fedslim.cli.console.live import PORT, live_page, member_watched_by, report_on_saved
from fedslim.cli.console.options import Reading, flag, option, reads_data, typed_command
from fedslim.cli.console.output import CODE_TABLE, print_rich, say, shown_label
from fedslim.cli.console.progress import Reporter, compile_with_progress, mined_with_progress, reporter
from fedslim.errors import ParameterError, RunError
from fedslim.format import count

if TYPE_CHECKING:
    from fedslim.data import ItemSecret, TransactionDatabase
    from fedslim.federated.deployment import DeployedMember
    from fedslim.federated.records import RunRecord
    from fedslim.mdl import CodeTable
    from fedslim.protocol.prepare import Site
    from fedslim.settings.federation_file import FederationFile


@reads_data
def member(  # noqa: C901, PLR0915  # the steps of a run, in their order
    context: typer.Context,
    file: Path = options.FEDERATION,
    *,
    name: str = option("NAME", "Name of this member, as in its certificate.", default=...),
    data: str = option("DATA", "The data of this member, as for `fedslim mine`.", options.masked, default=...),
    secret: Path = option("FILE", "The secret that the members share.", default=...),
    vocabulary: Path | None = options.VOCABULARY,
    preparation: Path | None = serve.PREPARATION,
    check: bool = flag("--check", "Check data, schema, policy, ledger, secret and certificate, then stop."),
    out: Path = option("DIR", "The run folder, for result, journal and audit log.", default=Path("run")),
    identity: Path | None = serve.IDENTITY,
    policy: Path | None = option("FILE", "The policy of this member; by default policy.toml beside its key."),
    passphrase_file: Path | None = passphrases.FILE,
    labels: Path | None = options.LABELS,
    reading: Reading,
    host: str | None = serve.SERVER_HOST,
    port: int | None = serve.SERVER_PORT,
    no_compare: bool = flag(
        "--no-compare", "Skip the comparison after the run, with the others and with mining alone."
    ),
    classes: str | None = serve.CLASSES,
    class_column: str | None = option("C", "With --classes: the column that has them; without it, classes are items."),
    live: int | None = PORT,
) -> None:
    """Take part in a federation, if the policy and ledger of this member allow it.

    With a schema, the members first agree on cuts and vocabulary in a preparation, which --out keeps. Every message is
    written to the audit log in --out before it is sent: see `fedslim audit`. To rejoin a run, run the same command
    again. After the run, `fedslim report` shows what this member has found and what is different here.
    """
    from fedslim.cli.commands.classes import class_runs, rows_of_class, save_classifier, share_preparation
    from fedslim.cli.console.logs import set_up_logs
    from fedslim.data import ItemSecret, Vocabulary
    from fedslim.data.vocabulary import names_for, read_labels
    from fedslim.federated.accounting import save_results
    from fedslim.federated.deployment import MEMBER_JOURNAL, DeployedMember
    from fedslim.federated.own_record import member_record
    from fedslim.federated.simulation import prepare
    from fedslim.safeguards.audit import AuditLog, summarise
    from fedslim.safeguards.guard import Guard
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    federation = FederationFile.read(file)
    folder = identity or federation.server.certificates
    own = MemberPolicy.find(folder) if policy is None else MemberPolicy.read(policy)
    set_up_logs(federation.log)
    Guard(own, federation)  # before anything else is read
    who = serve.load_identity(folder, passphrase_file)
    if who.name != name:
        msg = f"--name is {name!r}, but the certificate belongs to {who.name!r}; use the folder of {name!r}"
        raise ParameterError(msg)
    shared = ItemSecret.read(secret)
    if reading.schema is not None and vocabulary is not None:
        msg = "--vocabulary does not go with --schema: the members find it in the preparation; leave it out"
        raise ParameterError(msg)
    catalogue = {} if labels is None else dict.fromkeys(read_labels(labels), "")

    shown = live_page(context, live, f"{name} · {federation.federation.name}", reporter(quiet=False))

    runs = class_runs(federation, classes, out)

    def take_part(label: str | None, federation: FederationFile, out: Path) -> None:
        guard = Guard(own, federation)

        def joined(audit: AuditLog | None) -> DeployedMember:
            """Read everything, and check it before anybody waits for this member."""
            read = _read(reading, federation, shared, own.policy.min_overlap, shown)
            if label is not None:
                read = rows_of_class(reading, read, classes or "", class_column, label)
            agreed = None if vocabulary is None else Vocabulary.read(vocabulary)
            kept = serve.find_kept(preparation if out == runs[0][2] else None, federation, out)
            return DeployedMember(federation, who, read, shared, agreed, out, audit=audit, guard=guard, kept=kept)

        if check:
            _show_ready(joined(None))
            return
        with serve.hold_folder(out, f"fedslim member --name {name}") as place:
            finished = place.finished(who=name, federation=federation.digest().hex())
            if finished is not None:
                (out / MEMBER_JOURNAL).unlink(missing_ok=True)
                serve.show_finished(finished, out, federation.federation.name)
                return
            share_preparation(federation, runs[0][2], out)
            with AuditLog.of(out / serve.AUDIT, federation, name) as audit:
                member = joined(audit)
                compile_with_progress(shown, lambda: prepare(federation.federation.variant))
                around = member_watched_by(shown, member, audit)
                received = serve.run_until_over(member.run(host=host, port=port), None, around)
            if received.table is None or member.database is None:
                raise RunError(f"the run ended without a table ({received.ending})")
            named = received.table.renamed(names_for(catalogue, shared))
            kept, record = guard.kept(named, member.database, shared), None
            if kept is not None:
                how = {"ending": received.ending, "rounds": member.session.position, "command": typed_command(context)}
                how["sent"] = summarise(out / serve.AUDIT)
                record = member_record(federation, name, named, kept, member.database, **how)
                save_results(kept, record, out)
            # Only after everything is saved: until then, the same command needs the journal.
            place.finish(
                serve.note_finished(name, federation, member.session.run.hex(), received.ending, len(received.table))
            )
            member.forget()
            _show_found(received.ending, named, kept, federation, out)
            if record is not None and not no_compare and label is None:
                _compare(record, named, (data, member.database), out, shown)

    for run in runs:
        take_part(*run)
    report_on_saved(shown, (place for *_, place in runs))
    if classes is not None and not check:
        save_classifier([(label, place / CODE_TABLE) for label, _, place in runs], out)


def _read(
    reading: Reading, federation: "FederationFile", secret: "ItemSecret", min_overlap: float, shown: Reporter
) -> "TransactionDatabase | Site":
    """Read this member's data, as items or in terms of the schema."""
    from fedslim.protocol.prepare import Site
    from fedslim.schema import Schema

    schema = None if reading.schema is None else Schema.read(reading.schema)
    federation.check_schema(schema)
    with shown.stage(f"reading {shown_label(reading.source)}"):
        return reading.load() if schema is None else Site(schema, reading.conformed(schema), secret, min_overlap)


def _show_ready(member: "DeployedMember") -> None:
    """Say what a dry run found."""
    from fedslim.cli.commands.agreeing import show_report

    if member.site is not None:
        print_rich(*show_report(member.site.conformed.report))
    checked = "policy, ledger, secret and certificate are fine; nothing was sent"
    say(f"ready: {count(member.transactions, 'transaction')}; {checked}")


def _show_found(
    ending: str, table: "CodeTable", kept: "CodeTable | None", federation: "FederationFile", out: Path
) -> None:
    """Show what a member found, and say where it is."""
    if kept is not None:
        serve.show_table(kept, federation.federation.name, out)
    own_only = federation.federation.variant == "so"
    whose = " in this member's own table (in variant so, members get no other)" if own_only else ""
    where = f"saved in {out}" if kept is not None else "not saved, as results.table = none in this member's policy"
    say(f"{ending}: {count(len(table), 'itemset')}{whose}; {where}")


def _compare(
    record: "RunRecord", table: "CodeTable", data: "tuple[str, TransactionDatabase]", out: Path, shown: Reporter
) -> None:
    """Compare a member's data with the others', and with what it finds alone, after the run; Ctrl-C skips the rest."""
    from fedslim.federated.own_record import compared_record
    from fedslim.federated.records import RUN, save_run

    how = {name: record.settings[name] for name in ("width", "effort", "seed")}
    doing = "mining alone, to compare (nothing is sent):"
    mined = mined_with_progress(data[1], data[0], shown, doing=doing, **how)
    compared = compared_record(record, table, mined.table if mined.converged else None)
    save_run(compared, out / RUN, private=True)
    missed = compared.figures.get("not_found_alone", "an unknown number")
    told = "this member finds all of them alone; to see the report"
    if missed != 0:
        told = f"{missed} of them {'is' if missed == 1 else 'are'} not found by this member alone; to see them"
    say(f"{told}, run `fedslim report {out}`")
