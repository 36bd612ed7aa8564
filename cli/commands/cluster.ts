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

/**
 * Defines `saltbridge cluster`, which manages a cluster: masters on several machines that share a
 * store.
 */
export function defineCluster(command: Command, context: CommandContext): void {
  const subcommand = (usage: string, description: string): Command =>
    command
      .command(usage)
      .description(description)
      .addOption(configOption())
      .addOption(jsonOption())
      .addOption(logLevelOption());
  subcommand('init', 'create a cluster from the state and keys of this stopped master').action(
    async (options: ClusterCommandOptions) => {
      const receipt = await (await context.openCluster(options.configDir)).init();
      await report(context, options, receipt, [
        `cluster ${escapeName(receipt.cluster)} created with member ${escapeName(receipt.member)}`,
        `secret       ${escapeName(receipt.secretFile)}; store a copy outside of the cluster`,
      ]);
    },
  );
  subcommand(
    'ticket',
    'print a ticket with which one master can join the cluster of the running master',
  )
    .option('--seconds <count>', 'validity of the ticket, in seconds (default: 3600)', parseCount)
    .action(async (options: TicketOptions) => {
      const api = await context.openApi(options.configDir);
      const { seconds } = options;
      const made = await api.cluster.ticket(seconds === undefined ? {} : { seconds });
      await report(context, options, made, [made.ticket]);
    });
  subcommand('join', 'join a cluster with a ticket; this master must not have any state yet')
    .argument('<ticket>', 'output of saltbridge cluster ticket; - reads standard input')
    .action(async (given: string, options: ClusterCommandOptions) => {
      const ticket = given === '-' ? await context.input.readAll() : given;
      const receipt = await (await context.openCluster(options.configDir)).join(ticket);
      await report(context, options, receipt, [
        `member ${escapeName(receipt.member)} has joined cluster ${escapeName(receipt.cluster)}: start the master`,
      ]);
    });
  subcommand(
    'leave',
    'remove this stopped master, or a member that will not return, from the cluster',
  )
    .argument('[member]', 'member that will not return; this master must be running')
    .action(async (member: string | undefined, options: ClusterCommandOptions) => {
      if (member !== undefined) {
        await (await context.openApi(options.configDir)).cluster.remove({ member });
        await report(context, options, { member }, [`member ${escapeName(member)} is removed`]);
        return;
      }
      const receipt = await (await context.openCluster(options.configDir)).leave();
      await report(context, options, receipt, [
        `member ${escapeName(receipt.member)} has left cluster ${escapeName(receipt.cluster)}`,
        'before you start this master again, remove `saltbridge: cluster` from its configuration',
      ]);
    });
  subcommand(
    'drain',
    'prepare the running member for a restart, and make it reject new jobs and calls',
  )
    .option(
      '--timeout <seconds>',
      'maximum time to wait for running calls, in seconds (default: 300)',
      parseCount,
    )
    .action(async (options: DrainOptions) => {
      const api = await context.openApi(options.configDir);
      const { timeout: seconds } = options;
      const left = await api.cluster.drain(seconds === undefined ? {} : { seconds });
      if (left.active > 0) context.setExitCode(exitCodes.failure);
      const calls = `${left.active} ${left.active === 1 ? 'call is' : 'calls are'} still in progress`;
      await report(context, options, left, [
        left.active === 0 ? 'this member is drained: you can restart it' : calls,
      ]);
    });
  subcommand('resume', 'make a drained member accept jobs and calls again').action(
    async (options: ClusterCommandOptions) => {
      await (await context.openApi(options.configDir)).cluster.resume();
      await report(context, options, null, ['this member accepts new jobs and calls']);
    },
  );
  subcommand(
    'refound',
    'recreate the replicated log from the store of this stopped master, or from a backup',
  )
    .option(
      '--from <backup>',
      'start from this backup of a member, and apply the log entries that follow the backup',
    )
    .option(
      '--until <time>',
      'apply log entries up to this time, given as an age (30m, 1h, 7d) or a date',
    )
    .option(
      '--position <number>',
      'apply log entries up to this position (number of the last entry)',
      parseCount,
    )
    .action((options: RefoundOptions) => refound(options, context));
  subcommand('status', 'show the cluster as the running master sees it').action(
    async (options: ClusterCommandOptions) => {
      const status = await (await context.openApi(options.configDir)).cluster.status();
      if (status?.refusesWrites || status?.isStale) context.setExitCode(exitCodes.failure);
      const lines =
        status === null ? ['this master is not a member of a cluster'] : clusterLines(status);
      await report(context, options, status, lines);
    },
  );
}

async function refound(options: RefoundOptions, context: CommandContext): Promise<void> {
  const { from, until, position } = options;
  if (from === undefined && (until !== undefined || position !== undefined)) {
    throw new CommandError(
      'ERR_ARGS',
      '--until and --position are only permitted with --from BACKUP',
    );
  }
  const bound = {
    ...(until === undefined ? {} : { time: parseSince(until) }),
    ...(position === undefined ? {} : { position }),
  };
  const point = from === undefined ? undefined : { file: from, until: bound };
  const receipt = await (await context.openCluster(options.configDir)).refound(point);
  const { restored } = receipt;
  await report(context, options, receipt, [
    `the log of cluster ${escapeName(receipt.cluster)} is recreated with member ${escapeName(receipt.member)}`,
    ...(restored === undefined ? [] : restoredLines(restored)),
  ]);
}

function restoredLines({ from, to, time, last, old }: RestoredPoint): string[] {
  const when = new Date(time).toISOString();
  return [
    `restored     the backup, position ${from}, and the log up to position ${to} of ${last}, written until ${when}`,
    ...(old === undefined ? [] : [`before       the previous store is in ${escapeName(old)}`]),
  ];
}

async function report(
  { stdout }: CommandContext,
  { json }: ClusterCommandOptions,
  value: object | null,
  lines: readonly string[],
): Promise<void> {
  if (json) await printJson(stdout, value ?? {});
  else await printLine(stdout, lines.join('\n'));
}

/** Returns the state of a cluster as lines of text. `saltbridge status` prints the same lines. */
export function clusterLines(status: ClusterStatus): string[] {
  const { name, member, position, members, failingMs, warnings } = status;
  return [
    `cluster      ${escapeName(name)}, member ${escapeName(member)}, position ${position}`,
    ...members.map((it) => {
      const skew = it.clockSkewMs === undefined ? '' : `, clock ${Math.round(it.clockSkewMs)} ms`;
      const state = it.isAlive ? 'alive' : 'not heard';
      const versions = Object.entries(it.versions ?? {}).map(([kind, id]) => `, ${kind} ${id}`);
      const version = escapeName(versions.sort().join(''));
      return `member       ${escapeName(it.name)}: ${state}, position ${it.position}${skew}${version}`;
    }),
    ...(status.isStale
      ? ['stale        this member may lack entries of the log, so it rejects minions and tokens']
      : []),
    ...(status.refusesWrites
      ? ['alone        too few members are alive: jobs, key changes and signals are rejected']
      : []),
    ...(status.isDraining ? ['draining     this member accepts no new jobs or calls'] : []),
    ...(failingMs > 0
      ? [`log          has accepted no write for ${Math.round(failingMs / 1000)} s`]
      : []),
    ...warnings.map((it) => `warning      ${escapeLine(it)}`),
  ];
}
