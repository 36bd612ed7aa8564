/** What `saltbridge enroll` reads and prints. */
import type { ExtensionClient } from '../client/index.ts';
import type { Enrolment, EnrolRequest, KnownMinion } from '../heat-bridge/index.ts';
import type { CommandContext } from './context.ts';
import { CommandError } from './errors.ts';
import { exitCodes } from './exit-codes.ts';
import { readInput, readText } from './input-file.ts';
import { escapeName } from './output/escape.ts';
import { printLine } from './print.ts';

/** The options of `enroll create`, as commander names them. */
export interface EnrollCreateOptions {
  readonly project: string;
  readonly instance?: string;
  readonly address?: string;
  readonly by: NonNullable<EnrolRequest['by']>;
  readonly format: NonNullable<EnrolRequest['format']>;
  readonly minionConfig?: string;
  readonly beside?: string;
  readonly lifetime?: number;
  readonly expires?: string;
  readonly protocol?: NonNullable<EnrolRequest['protocol']>;
  readonly ticket?: boolean;
  readonly wait?: boolean;
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The request that the options make. @throws CommandError ERR_ARGS */
export async function enrolRequestOf(
  id: string,
  { ticket, wait: _wait, beside, expires, ...options }: EnrollCreateOptions,
): Promise<EnrolRequest> {
  const { project, instance, address, by, format, lifetime, protocol, minionConfig } = options;
  return {
    id,
    project,
    by,
    format: ticket ? 'none' : format,
    ...(instance === undefined ? {} : { instance }),
    ...(address === undefined ? {} : { address }),
    ...(lifetime === undefined ? {} : { lifetime }),
    ...(protocol === undefined ? {} : { protocol }),
    ...(minionConfig === undefined ? {} : { configDir: minionConfig }),
    ...(beside === undefined ? {} : { beside: await readText(beside) }),
    ...(expires === undefined ? {} : { expires: readEnd(expires) }),
  };
}

/**
 * The minions of a file. @param project of those that say none
 * @throws CommandError ERR_ARGS
 */
export async function readMinions(
  file: string,
  project: string | undefined,
  context: Pick<CommandContext, 'input'>,
): Promise<readonly KnownMinion[]> {
  const list = parseJson(await readInput(file, context));
  if (!Array.isArray(list)) throw new CommandError('ERR_ARGS', `${file} holds no list`);
  // Each entry is looked at by the master.
  return list.map((one) => (project === undefined ? one : { project, ...one }));
}

/** Prints each state until the minion has signed in; else the command fails. */
export async function followEnrolment(
  bridge: ExtensionClient,
  number: string,
  { stderr, interruption, setExitCode }: CommandContext,
): Promise<void> {
  let last: Enrolment | undefined;
  const changes = bridge.stream<Enrolment>('enroll.follow', { number }, interruption());
  for await (const enrolment of changes) {
    last = enrolment;
    await printLine(stderr, formatEnrolmentLine(enrolment));
  }
  if (last?.state !== 'signed-in') setExitCode(exitCodes.failure);
}

export function formatEnrolmentLine({ number, id, project, by, state, reason }: Enrolment): string {
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeName(`${number} ${id} of ${project} by ${by}: ${state}${why}`);
}

/** One enrolment, a line for each of what is known. */
export function formatEnrolment(enrolment: Enrolment): string {
  const time = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(ms).toISOString();
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['enrolment', enrolment.number],
    ['minion', enrolment.id],
    ['project', enrolment.project],
    ['instance', enrolment.instance],
    ['address', enrolment.address],
    ['by', enrolment.by],
    ['state', enrolment.state],
    ['reason', enrolment.reason],
    ['key', enrolment.fingerprint],
    ['protocol', enrolment.protocol === 0 ? 'any' : `${enrolment.protocol} or higher`],
    ['begun', time(enrolment.createdAt)],
    ['ticket to', time(enrolment.ticketExpiresAt)],
    ['due', time(enrolment.deadline)],
    ['key to', time(enrolment.keyExpiresAt)],
  ];
  return rows
    .flatMap(([name, text]) =>
      text === undefined ? [] : [`${name.padEnd(10)}${escapeName(text)}`],
    )
    .join('\n');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CommandError('ERR_ARGS', 'expected JSON', { cause });
  }
}

/** A length of time from now, or a date or time as in ISO 8601. */
function readEnd(text: string, now: number = Date.now()): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const ms = unitMs[unit];
  if (count !== undefined && ms !== undefined) return now + Number(count) * ms;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new CommandError('ERR_ARGS', '--expires is a time such as 90m, 12h, 30d, or a date');
}
