/** `saltbridge jobs list|show`. */
import type { Delivery, JobReport, JobSummary, SilenceReason } from '../master/index.ts';
import type { WireMap } from '../minion-protocol/index.ts';
import type { CommandContext } from './context.ts';
import { escapeName } from './output/escape.ts';
import { formatJson } from './output/json.ts';
import { printJson, printLine } from './print.ts';

const reasons: Readonly<Record<SilenceReason, string>> = {
  'key-not-accepted': 'its key is not accepted',
  'never-heard': 'not heard since the master started',
  'not-heard-since': 'not heard since the job was published',
  'queue-full': 'perhaps skipped: the queue of a subscriber was full',
  'no-return': 'heard since, but it returned nothing',
};

/** One line a job, the latest first. */
export async function listJobs(
  jobs: readonly JobSummary[],
  { isJson }: { readonly isJson: boolean },
  { stdout, stderr }: Pick<CommandContext, 'stdout' | 'stderr'>,
): Promise<void> {
  if (isJson) await printJson(stdout, jobs);
  else if (jobs.length === 0) await printLine(stderr, 'No job is kept.');
  for (const job of isJson ? [] : jobs) {
    const { jid, user } = job;
    const what = `${describeFun(job)} on ${describeTarget(job)} by ${escapeName(user)}`;
    await printLine(stdout, `${escapeName(jid)}  ${what}: ${describeCounts(job)}`);
  }
}

/** The job, and a line for each minion. */
export function describeJob(job: JobReport): string {
  const width = Math.max(0, ...job.deliveries.map(({ minion }) => escapeName(minion).length));
  return [
    `jid        ${escapeName(job.jid)}`,
    `function   ${describeFun(job)}`,
    `target     ${describeTarget(job)}`,
    `user       ${escapeName(job.user)}`,
    `published  ${isoTime(job.publishedAt)}${job.selfMade ? ' by the minion itself' : ''}`,
    `minions    ${describeCounts(job)}`,
    ...job.deliveries.map(
      (delivery) => `  ${escapeName(delivery.minion).padEnd(width)}  ${describeDelivery(delivery)}`,
    ),
  ].join('\n');
}

/** Everything that is known of the job. */
export function jobAsJson({
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
  const heard = lastHeardAt === undefined ? '' : `; last heard ${isoTime(lastHeardAt)}`;
  return `${state.padEnd(8)}  ${reasons[reason]}${heard}`;
}

function describeFun({ fun }: JobSummary): string {
  return [fun].flat().map(escapeName).join(',');
}

function describeTarget({ tgt, tgtType }: JobSummary): string {
  const names = [tgt].flat().map(escapeName).join(',');
  return tgtType === 'glob' ? names : `${names} (${escapeName(tgtType)})`;
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
