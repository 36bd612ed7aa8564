import type { Command } from 'commander';
import type { Delivery, JobReport, JobSummary } from '#master';
import type { WireMap } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { configOption, jsonOption, logLevelOption, parseCount } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatReturn } from '../output/outputters.ts';
import { formatJson } from '../output/value-text.ts';
import { escapeName, printLine, printList } from '../terminal.ts';

const silenceReasons: Readonly<Record<NonNullable<Delivery['reason']>, string>> = {
  'key-not-accepted': 'the key of the minion is not accepted',
  'never-heard': 'no request from the minion since the master started',
  'not-heard-since': 'no request from the minion since the job was published',
  'queue-full': 'the minion may have missed the job: the queue of its connection was full',
  'no-return': 'the minion sent requests after the job, but no return',
  'not-sent': 'the master stopped before it sent the job',
  unknown: 'the master stopped while the job was active; it is unknown whether the job ran',
};

function formatSummary(job: JobSummary): string {
  const { jid, user, selfMade } = job;
  const who = selfMade ? 'the minion itself' : escapeName(user);
  const what = `${describeFun(job)} on ${describeTarget(job)} by ${who}`;
  return `${escapeName(jid)}  ${what}: ${describeCounts(job)}`;
}

/** Returns the job as text, with a line for each minion. */
function formatJob(job: JobReport): string {
  const width = Math.max(0, ...job.deliveries.map(({ minion }) => escapeName(minion).length));
  return [
    `jid        ${escapeName(job.jid)}`,
    `function   ${describeFun(job)}`,
    `target     ${describeTarget(job)}`,
    `user       ${escapeName(job.user)}${job.selfMade ? ' (reported by the minion, not verified)' : ''}`,
    `published  ${isoTime(job.publishedAt)}${job.selfMade ? ' by the minion itself' : ''}`,
    `minions    ${describeCounts(job)}`,
    ...job.deliveries.map(
      (delivery) => `  ${escapeName(delivery.minion).padEnd(width)}  ${describeDelivery(delivery)}`,
    ),
  ].join('\n');
}

/** Returns all data of a job, for JSON output. */
function formatJobAsJson({
  tgt,
  fun,
  arg,
  deliveries,
  returns,
  counts,
  ...rest
}: JobReport): string {
  const map: WireMap = {
    ...rest,
    fun: typeof fun === 'string' ? fun : [...fun],
    tgt: typeof tgt === 'string' ? tgt : [...tgt],
    arg: [...arg],
    counts: { ...counts },
    deliveries: deliveries.map((delivery) => ({ ...delivery })),
    returns: returns.map((result) => ({
      ...result,
      fun: typeof result.fun === 'string' ? result.fun : [...result.fun],
    })),
  };
  return formatJson(map, { indent: 2 });
}

function describeDelivery({ state, receivedAt, reason, lastHeardAt }: Delivery): string {
  if (receivedAt !== undefined) return `${state.padEnd(8)}  ${isoTime(receivedAt)}`;
  if (reason === undefined) return state;
  const heard = lastHeardAt === undefined ? '' : `; last request ${isoTime(lastHeardAt)}`;
  return `${state.padEnd(8)}  ${silenceReasons[reason]}${heard}`;
}

function describeFun({ fun }: JobSummary): string {
  return [fun].flat().map(escapeName).join(',');
}

function describeTarget({ tgt, tgtType, isNarrowed }: JobSummary): string {
  const names = [tgt].flat().map(escapeName).join(',');
  const limit = isNarrowed === true ? ", limited by the user's rights" : '';
  return (tgtType === 'glob' ? names : `${names} (${escapeName(tgtType)})`) + limit;
}

function describeCounts({ counts }: JobSummary): string {
  const parts = Object.entries(counts).filter(([, count]) => count > 0);
  return parts.length === 0
    ? 'none'
    : parts.map(([state, count]) => `${count} ${state}`).join(', ');
}

function isoTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

interface ListOptions {
  readonly configDir: string;
  readonly limit?: number;
  readonly json?: boolean;
}

interface ShowOptions extends OutputCommandOptions {
  readonly configDir: string;
  readonly returns: boolean;
  readonly json?: boolean;
}

/**
 * Defines `saltbridge jobs`, which shows published jobs, their returns, and reasons for missing
 * returns.
 */
export function defineJobs(command: Command, context: CommandContext): void {
  command
    .command('list')
    .description('list the latest jobs')
    .addOption(configOption())
    .option('-n, --limit <n>', 'maximum number of jobs', parseCount, 50)
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, limit = 50, json }: ListOptions) => {
      const api = await context.openApi(configDir);
      const jobs = await api.jobs.list({ limit });
      await printList(context, jobs, { json, format: formatSummary, none: 'No job is stored.' });
    });
  const show = command
    .command('show')
    .description('show the state of a job, and its return on each minion')
    .argument('<jid>', "the job's id")
    .addOption(configOption())
    .option('--no-returns', 'omit the returns');
  addOutputOptions(show);
  show
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action((jid: string, options: ShowOptions) => showJob(jid, options, context));
}

async function showJob(jid: string, options: ShowOptions, context: CommandContext): Promise<void> {
  const api = await context.openApi(options.configDir);
  const job = await api.jobs.show(jid);
  if (options.json === true) {
    await printLine(context.stdout, formatJobAsJson(job));
    return;
  }
  await printLine(context.stdout, formatJob(job));
  if (!options.returns || job.returns.length === 0) return;
  const { output, sink } = await chooseOutput(options, context);
  await printLine(context.stdout, '');
  for (const { minion, return: value, out } of job.returns) {
    const failed = job.deliveries.find((delivery) => delivery.minion === minion);
    const isFailure = failed?.state === 'failed';
    await sink.write(
      formatReturn({ minion, value, isFailure, ...(out === undefined ? {} : { out }) }, output),
    );
  }
}
