/** `saltbridge enroll`: enrolment and removal of machines as minions. */

import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ExtensionClient } from '#client';
import type { Enrolment, EnrolRequest, KnownMinion, NewEnrolment } from '#heat-bridge';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';

/** Options of `enroll create`, with commander's names. */
interface EnrollCreateOptions {
  readonly project: string;
  readonly instance?: string;
  readonly address?: string;
  readonly agent?: boolean;
  readonly master?: readonly string[];
  readonly by: NonNullable<EnrolRequest['by']>;
  readonly format: NonNullable<EnrolRequest['format']>;
  readonly minionConfig?: string;
  readonly mergeUserData?: string;
  readonly lifetime?: number;
  readonly expires?: string;
  readonly protocol?: NonNullable<EnrolRequest['protocol']>;
  readonly ticket?: boolean;
  readonly wait?: boolean;
}

const expiryUnitsMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Converts the options to a request for an enrolment.
 * @throws CommandError ERR_ARGS
 */
async function toEnrolRequest(
  id: string,
  { ticket, wait: _wait, mergeUserData: file, expires, ...options }: EnrollCreateOptions,
): Promise<EnrolRequest> {
  const { project, instance, address, by, format, lifetime, protocol, minionConfig } = options;
  const { agent, master: masters } = options;
  return {
    id,
    project,
    by,
    format: ticket ? 'none' : format,
    ...(instance === undefined ? {} : { instance }),
    ...(address === undefined ? {} : { address }),
    ...(agent === undefined ? {} : { agent }),
    ...(masters === undefined ? {} : { masters }),
    ...(lifetime === undefined ? {} : { lifetimeSeconds: lifetime }),
    ...(protocol === undefined ? {} : { protocol }),
    ...(minionConfig === undefined ? {} : { configDir: minionConfig }),
    ...(file === undefined ? {} : { beside: await readUserData(file) }),
    ...(expires === undefined ? {} : { expires: parseExpiry(expires) }),
  };
}

const maxUserDataBytes = 262_144;

/**
 * Reads user-data as text, plain or compressed with gzip.
 * @throws CommandError ERR_ARGS
 */
async function readUserData(file: string): Promise<string> {
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new CommandError('ERR_ARGS', `${file} cannot be read`, { cause });
  });
  const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  try {
    const text = isCompressed ? gunzipSync(bytes, { maxOutputLength: maxUserDataBytes }) : bytes;
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(text);
  } catch (cause) {
    const problem = 'it is not UTF-8 text of at most 262,144 bytes, plain or compressed with gzip';
    throw new CommandError('ERR_ARGS', `${file} cannot be merged: ${problem}`, { cause });
  }
}

/**
 * Reads a list of minions from a file.
 * @param project - project of minions without a project in the list
 * @throws CommandError ERR_ARGS
 */
async function readMinionList(
  file: string,
  project: string | undefined,
  context: Pick<CommandContext, 'input'>,
): Promise<readonly KnownMinion[]> {
  const list = parseJson(await readFileOrStandardInput(file, context));
  if (!Array.isArray(list))
    throw new CommandError('ERR_ARGS', `${file} does not contain a JSON list of minions`);
  // The master validates each entry of the list.
  return list.map((one) => (project === undefined ? one : { project, ...one }));
}

/**
 * Prints each state of an enrolment until the minion has signed in.
 * @throws an error if the enrolment fails
 */
async function followEnrolment(
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

function formatEnrolmentLine({ number, id, project, by, state, reason }: Enrolment): string {
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeName(`${number} ${id} of ${project} by ${by}: ${state}${why}`);
}

/** Returns an enrolment as text. Each attribute has its own line. */
function formatEnrolment(enrolment: Enrolment): string {
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
    throw new CommandError('ERR_ARGS', 'the list of minions is not valid JSON', { cause });
  }
}

/**
 * Parses an expiry time: a duration from now, or a date or time in ISO 8601 form. Returns
 * milliseconds since 1970.
 */
function parseExpiry(text: string, now: number = Date.now()): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const ms = expiryUnitsMs[unit];
  if (count !== undefined && ms !== undefined) return now + Number(count) * ms;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new CommandError('ERR_ARGS', '--expires: expected a time such as 90m, 12h, 30d, or a date');
}

interface CommonOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

export function defineEnroll(command: Command, context: CommandContext): void {
  const open = (configDir: string): Promise<ExtensionClient> =>
    context.openExtension(configDir, 'bridge');
  addCreate(command, context, open);
  addImport(command, context, open);
  addShowCommands(command, context, open);
  addRetire(command, context, open);
}

type OpenBridge = (configDir: string) => Promise<ExtensionClient>;

function addCreate(enroll: Command, context: CommandContext, open: OpenBridge): void {
  const create = enroll
    .command('create')
    .description('create an enrolment, and print user-data that makes a machine a minion')
    .argument('<id>', 'id of the minion')
    .requiredOption('--project <name>', 'project that owns the machine')
    .option(
      '--instance <name>',
      'instance id of the machine; only this instance can use the ticket',
    )
    .option('--address <ip>', 'IP address of the machine; only this address can use the ticket')
    .option(
      '--agent',
      'make the machine claim its key through the metadata agent instead of the URL in the option `enroll: url`',
    )
    .option(
      '--master <address...>',
      'addresses of masters for the minion configuration (default: the option `enroll: masters`)',
    )
    .addOption(
      new Option('--by <way>', 'method of accepting the key of the minion')
        .choices(['claim', 'keys', 'grain'])
        .default('claim'),
    )
    .addOption(
      new Option('--format <format>', 'program on the machine that executes the user-data')
        .choices(['cloud-init', 'shell', 'cloudbase-init'])
        .default('cloud-init'),
    )
    .option('--minion-config <dir>', 'configuration directory of the minion (default: /etc/salt)')
    .option(
      '--merge-user-data <file>',
      'file with user-data of your own; it is merged into the output',
    )
    .option('--lifetime <seconds>', 'validity of the ticket, in seconds', parseCount)
    .option(
      '--expires <time>',
      'time at which the accepted key expires, given as a duration from now (90m, 12h, 30d) or a date',
    )
    .option(
      '--protocol <n>',
      'lowest protocol version that the minion may use to sign in',
      parseProtocol,
    )
    .option('--ticket', 'print the ticket only, without user-data')
    .option('--wait', 'wait until the minion signs in');
  withCommonOptions(create).action(
    async (id: string, options: EnrollCreateOptions & CommonOptions) => {
      const bridge = await open(options.configDir);
      const request = await toEnrolRequest(id, options);
      const made = await bridge.call<NewEnrolment>('enroll.create', request);
      if (options.json) await printJson(context.stdout, made);
      else if (options.ticket) await printLine(context.stdout, made.ticket);
      else context.stdout.write(made.userData);
      await printLine(context.stderr, `Enrolment ${made.enrolment.number}`);
      if (options.wait) await followEnrolment(bridge, made.enrolment.number, context);
    },
  );
}

function addImport(enroll: Command, context: CommandContext, open: OpenBridge): void {
  const command = enroll
    .command('import')
    .description('accept the keys of all minions in a list; if one entry is invalid, accept none')
    .argument('<file>', 'JSON: a list of {id, publicKey or fingerprint, project?}; - for stdin')
    .option('--project <name>', 'project of the minions whose entry in the list has no project');
  withCommonOptions(command).action(
    async (file: string, options: CommonOptions & { readonly project?: string }) => {
      const minions = await readMinionList(file, options.project, context);
      const bridge = await open(options.configDir);
      const made = await bridge.call<readonly Enrolment[]>('enroll.import', { minions });
      if (options.json) await printJson(context.stdout, made);
      else for (const one of made) await printLine(context.stdout, formatEnrolmentLine(one));
    },
  );
}

function addShowCommands(enroll: Command, context: CommandContext, open: OpenBridge): void {
  const list = enroll.command('list').description('list enrolments');
  withCommonOptions(list).action(async ({ configDir, json }: CommonOptions) => {
    const all = await (await open(configDir)).call<readonly Enrolment[]>('enroll.list');
    await printList(context, all, {
      json,
      format: formatEnrolmentLine,
      none: 'No machine is enrolled.',
    });
  });
  const show = enroll.command('show').description('show one enrolment').argument('<number>');
  withCommonOptions(show).action(async (number: string, { configDir, json }: CommonOptions) => {
    const bridge = await open(configDir);
    const enrolment = await bridge.call<Enrolment>('enroll.show', { number });
    if (json) await printJson(context.stdout, enrolment);
    else await printLine(context.stdout, formatEnrolment(enrolment));
  });
  const wait = enroll
    .command('wait')
    .description('wait until a minion signs in, or until its enrolment fails')
    .argument('<number>');
  withCommonOptions(wait).action(async (number: string, { configDir }: CommonOptions) => {
    await followEnrolment(await open(configDir), number, context);
  });
}

function addRetire(enroll: Command, context: CommandContext, open: OpenBridge): void {
  const command = enroll
    .command('retire')
    .description('delete the key, mine and jobs of a machine, and close its connections')
    .argument('[id]', 'id of the minion')
    .option(
      '--instance <name>',
      'id of the instance in the cloud; give either this option or the minion id',
    );
  withCommonOptions(command).action(
    async (id: string | undefined, options: CommonOptions & { readonly instance?: string }) => {
      const { instance } = options;
      if ((id === undefined) === (instance === undefined)) {
        command.error('give either a minion id or --instance', { exitCode: 64 });
      }
      const machine = id === undefined ? { instance } : { id };
      await (await open(options.configDir)).call<null>('enroll.retire', machine);
      if (!options.json) await printLine(context.stdout, 'Retired.');
    },
  );
}

function parseProtocol(text: string): number {
  if (!/^[0-3]$/.test(text))
    throw new InvalidArgumentError('the protocol version must be 0, 1, 2 or 3.');
  return Number(text);
}
