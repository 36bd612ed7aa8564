import type { Command } from 'commander';
import type { RefoundReceipt } from '#cluster';
import type { MasterStatus } from '#master';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { configOption, jsonOption, logLevelOption, parseCount, parseSince } from '../options.ts';
import { escapeLine, escapeName, printJson, printLine } from '../terminal.ts';

type ClusterStatus = NonNullable<MasterStatus['cluster']>;

interface ClusterCommandOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface TicketOptions extends ClusterCommandOptions {
  readonly seconds?: number;
}

interface DrainOptions extends ClusterCommandOptions {
  readonly timeout?: number;
}

interface RefoundOptions extends ClusterCommandOptions {
  readonly from?: string;
  readonly until?: string;
  readonly position?: number;
}

type RestoredPoint = NonNullable<RefoundReceipt['restored']>;

/** `saltbridge cluster`: masters on several machines that share a store. */
export function defineCluster(command: Command, context: CommandContext): void {
  const subcommand = (usage: string, description: string): Command =>
    command
      .command(usage)
      .description(description)
      .addOption(configOption())
      .addOption(jsonOption())
      .addOption(logLevelOption());
  subcommand('init', 'begin a cluster with the state and keys of this stopped master').action(
    async (options: ClusterCommandOptions) => {
      const receipt = await (await context.openCluster(options.configDir)).init();
      await tell(context, options, receipt, [
        `cluster ${escapeName(receipt.cluster)} begins with member ${escapeName(receipt.member)}`,
        `secret       ${escapeName(receipt.secretFile)}; keep a copy outside of the cluster`,
      ]);
    },
  );
  subcommand('ticket', 'print a ticket with which one master joins; a master must be running')
    .option('--seconds <count>', 'how long it is good (default: 3600)', parseCount)
    .action(async (options: TicketOptions) => {
      const api = await context.openApi(options.configDir);
      const { seconds } = options;
      const made = await api.cluster.ticket(seconds === undefined ? {} : { seconds });
      await tell(context, options, made, [made.ticket]);
    });
  subcommand('join', 'join a cluster by a ticket; this master has no state yet')
    .argument('<ticket>', 'what saltbridge cluster ticket printed; -: read it from standard input')
    .action(async (given: string, options: ClusterCommandOptions) => {
      const ticket = given === '-' ? await context.input.readAll() : given;
      const receipt = await (await context.openCluster(options.configDir)).join(ticket);
      await tell(context, options, receipt, [
        `member ${escapeName(receipt.member)} has joined cluster ${escapeName(receipt.cluster)}: start the master`,
      ]);
    });
  subcommand('leave', 'take this stopped master, or a member that is gone, out of the cluster')
    .argument('[member]', 'one that is gone for good; a master must be running')
    .action(async (member: string | undefined, options: ClusterCommandOptions) => {
      if (member !== undefined) {
        await (await context.openApi(options.configDir)).cluster.remove({ member });
        await tell(context, options, { member }, [`member ${escapeName(member)} is taken out`]);
        return;
      }
      const receipt = await (await context.openCluster(options.configDir)).leave();
      await tell(context, options, receipt, [
        `member ${escapeName(receipt.member)} has left cluster ${escapeName(receipt.cluster)}`,
        'remove saltbridge: cluster from its configuration before it is started again',
      ]);
    });
  subcommand('drain', 'prepare the running member for a restart: it takes no new jobs and calls')
    .option('--timeout <seconds>', 'how long calls may take to end (default: 300)', parseCount)
    .action(async (options: DrainOptions) => {
      const api = await context.openApi(options.configDir);
      const { timeout: seconds } = options;
      const left = await api.cluster.drain(seconds === undefined ? {} : { seconds });
      if (left.active > 0) context.setExitCode(exitCodes.failure);
      const calls = `${left.active} ${left.active === 1 ? 'call is' : 'calls are'} under way still`;
      await tell(context, options, left, [
        left.active === 0 ? 'this member is drained: it may be restarted' : calls,
      ]);
    });
  subcommand('resume', 'let a member that was drained take jobs and calls again').action(
    async (options: ClusterCommandOptions) => {
      await (await context.openApi(options.configDir)).cluster.resume();
      await tell(context, options, null, ['this member takes jobs and calls again']);
    },
  );
  subcommand('refound', 'begin the log anew with the store of this stopped master, or a backup')
    .option('--from <backup>', 'a backup of a member, onto which the log is replayed')
    .option('--until <time>', 'replay what was written until then: 30m, 1h, 7d ago, or a date')
    .option('--position <number>', 'replay up to this position of the log', parseCount)
    .action((options: RefoundOptions) => refound(options, context));
  subcommand('status', 'show the cluster as the running master sees it').action(
    async (options: ClusterCommandOptions) => {
      const status = await (await context.openApi(options.configDir)).cluster.status();
      if (status?.refusesWrites) context.setExitCode(exitCodes.failure);
      const lines = status === null ? ['of no cluster'] : clusterLines(status);
      await tell(context, options, status, lines);
    },
  );
}

async function refound(options: RefoundOptions, context: CommandContext): Promise<void> {
  const { from, until, position } = options;
  if (from === undefined && (until !== undefined || position !== undefined)) {
    throw new CommandError('ERR_ARGS', '--until and --position need --from: a backup');
  }
  const bound = {
    ...(until === undefined ? {} : { time: parseSince(until) }),
    ...(position === undefined ? {} : { position }),
  };
  const point = from === undefined ? undefined : { file: from, until: bound };
  const receipt = await (await context.openCluster(options.configDir)).refound(point);
  const { restored } = receipt;
  await tell(context, options, receipt, [
    `the log of cluster ${escapeName(receipt.cluster)} begins anew with member ${escapeName(receipt.member)}`,
    ...(restored === undefined ? [] : restoredLines(restored)),
  ]);
}

function restoredLines({ from, to, time, last, old }: RestoredPoint): string[] {
  const when = new Date(time).toISOString();
  return [
    `restored     the backup, position ${from}, and the log up to position ${to} of ${last}, written until ${when}`,
    ...(old === undefined ? [] : [`before       the store is in ${escapeName(old)}`]),
  ];
}

async function tell(
  { stdout }: CommandContext,
  { json }: ClusterCommandOptions,
  value: object | null,
  lines: readonly string[],
): Promise<void> {
  if (json) await printJson(stdout, value ?? {});
  else await printLine(stdout, lines.join('\n'));
}

/** A cluster, for people; `saltbridge status` has these lines too. */
export function clusterLines(status: ClusterStatus): string[] {
  const { name, member, position, members, failingMs, warnings } = status;
  return [
    `cluster      ${escapeName(name)}, member ${escapeName(member)}, position ${position}`,
    ...members.map((it) => {
      const skew = it.clockSkewMs === undefined ? '' : `, clock ${Math.round(it.clockSkewMs)} ms`;
      const state = it.isAlive ? 'alive' : 'not heard';
      const versions = Object.entries(it.versions ?? {}).map(([kind, id]) => `, ${kind} ${id}`);
      const told = escapeName(versions.sort().join(''));
      return `member       ${escapeName(it.name)}: ${state}, position ${it.position}${skew}${told}`;
    }),
    ...(status.refusesWrites
      ? ['alone        too few members are alive: jobs, key changes and signals are refused']
      : []),
    ...(status.isDraining ? ['draining     it takes no new jobs and calls'] : []),
    ...(failingMs > 0
      ? [`log          has taken no write for ${Math.round(failingMs / 1000)} s`]
      : []),
    ...warnings.map((it) => `warning      ${escapeLine(it)}`),
  ];
}
