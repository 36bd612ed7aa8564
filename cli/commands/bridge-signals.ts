import { type Command, Option } from 'commander';
import type { HandleInfo, HandleRegistration, OutboxEntry } from '#heat-bridge';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError } from '../errors.ts';
import { loadBridge } from '../load-bridge.ts';
import { parseCount, parseSeconds, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';

interface HandleOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface OwnerOptions extends HandleOptions {
  readonly owner?: string;
}

interface AddOptions extends OwnerOptions {
  readonly minion?: readonly string[];
  readonly glob?: readonly string[];
  readonly nodegroup?: readonly string[];
  readonly project?: readonly string[];
  readonly member?: readonly string[];
  readonly emptyIsSuccess?: boolean;
  readonly stack?: string;
  readonly expires?: number;
  readonly replace?: boolean;
}

/**
 * Defines `saltbridge bridge handle`, which manages handles: the destinations of minions' signals.
 */
export function addHandleCommands(bridge: Command, context: CommandContext): void {
  const handle = bridge
    .command('handle')
    .description('manage handles, the destinations of signals');
  addHandleAdd(handle, context);
  addHandleList(handle, context);
  addHandleSubcommand(handle, context, 'show', 'show one handle without its secrets');
  addHandleSubcommand(handle, context, 'remove', 'remove a handle; its undelivered signals fail');
}

function addHandleAdd(handle: Command, context: CommandContext): void {
  withCommonOptions(
    handle
      .command('add')
      .description(
        'register a Heat handle or a webhook, so that minions can signal it by its alias',
      )
      .argument('<alias>', 'name of the handle; minions signal it with event.send heat/<alias>')
      .argument(
        '<file>',
        'file with the handle attribute from Heat, as JSON or text; - reads standard input',
      )
      .option('--minion <ids...>', 'ids of minions that may signal the handle')
      .option('--glob <patterns...>', 'globs; minions with matching ids may signal the handle')
      .option('-N, --nodegroup <names...>', 'nodegroups whose minions may signal the handle')
      .option('--project <names...>', 'projects whose enrolled minions may signal the handle')
      .option(
        '--member <names...>',
        'names of members; a minion signals for a member with event.send heat/<alias>/<member>',
      )
      .option('--empty-is-success', 'treat an event without data as SUCCESS instead of FAILURE')
      .option('--stack <name>', 'stack whose quota applies to the signals')
      .option('--owner <name>', 'owner of the handle, for example a project')
      .addOption(
        new Option(
          '--expires <seconds>',
          'how long the handle is valid (default: 12 hours)',
        ).argParser(parseSeconds),
      )
      .option('--replace', 'replace an existing handle that has this alias'),
  ).action(async (alias: string, file: string, options: AddOptions) => {
    const { configDir, minion, glob, nodegroup, project, ...more } = options;
    const { member, emptyIsSuccess, stack, owner, expires, replace = false, json } = more;
    if ([minion, glob, nodegroup, project].every((it) => it === undefined)) {
      const text =
        'no minion may signal this handle: add --minion, --glob, --nodegroup or --project';
      throw new CommandError('ERR_ARGS', text);
    }
    const registration: HandleRegistration = {
      alias,
      ...(minion === undefined ? {} : { minions: minion }),
      ...(glob === undefined ? {} : { globs: glob }),
      ...(nodegroup === undefined ? {} : { nodegroups: nodegroup }),
      ...(project === undefined ? {} : { projects: project }),
      ...(member === undefined ? {} : { members: member }),
      ...(emptyIsSuccess === undefined ? {} : { emptyIsSuccess }),
      ...(stack === undefined ? {} : { stack }),
      ...(owner === undefined ? {} : { owner }),
      ...(expires === undefined ? {} : { expiresAt: Date.now() + Math.round(expires * 1000) }),
      // Read the handle from a file, because every account on the machine can see command lines.
      signal: await readFileOrStandardInput(file, context),
    };
    const bridge = await context.openExtension(configDir, 'bridge');
    const parameters = { registration, replaces: replace };
    const info = await bridge.call<HandleInfo>('handles.add', parameters);
    await printHandle(info, json, context);
    if (info.isListed) return;
    const advice = 'list it under saltbridge: bridge: handles: endpoints';
    await printLine(
      context.stderr,
      `Signals are not delivered to ${info.origin}, because this address is not permitted: ${advice}.`,
    );
  });
}

function addHandleList(handle: Command, context: CommandContext): void {
  withCommonOptions(
    handle
      .command('list')
      .description('list handles, including handles that expired less than a day ago')
      .option('--owner <name>', 'list only handles of this owner'),
  ).action(async ({ configDir, json, owner }: OwnerOptions) => {
    const bridge = await context.openExtension(configDir, 'bridge');
    const of = owner === undefined ? {} : { owner };
    const list = await bridge.call<readonly HandleInfo[]>('handles.list', of);
    if (json) return printJson(context.stdout, list);
    if (list.length === 0) await printLine(context.stderr, 'No handle is registered.');
    const { groupTexts } = await loadBridge();
    for (const info of list) {
      await printLine(context.stdout, formatHandleLine(info, groupTexts(info)));
    }
  });
}

function addHandleSubcommand(
  handle: Command,
  context: CommandContext,
  name: 'remove' | 'show',
  description: string,
): void {
  withCommonOptions(
    handle
      .command(name)
      .description(description)
      .argument('<alias>')
      .option(
        '--owner <name>',
        'owner of the handle; necessary if handles of several owners have the same alias',
      )
      .option(
        '--stack <name>',
        'stack of the handle; necessary if handles of several stacks have the same alias',
      ),
  ).action(async (alias: string, { configDir, json, owner, stack }: AddOptions) => {
    const bridge = await context.openExtension(configDir, 'bridge');
    const which = {
      alias,
      ...(owner === undefined ? {} : { owner }),
      ...(stack === undefined ? {} : { stack }),
    };
    await printHandle(await bridge.call<HandleInfo>(`handles.${name}`, which), json, context);
  });
}

async function printHandle(
  info: HandleInfo,
  json: boolean | undefined,
  { stdout }: CommandContext,
): Promise<void> {
  if (json) return printJson(stdout, info);
  const { alias, transport, origin, isListed, minions, members, stack, owner } = info;
  const { groupTexts } = await loadBridge();
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['handle', alias],
    ['transport', transport],
    [
      'endpoint',
      isListed ? origin : `${origin} (not in handles: endpoints, so no signal is sent there)`,
    ],
    ['minions', minions.length === 0 ? undefined : minions.join(', ')],
    ['groups', groupTexts(info).join(', ') || undefined],
    ['members', members.length === 0 ? undefined : members.join(', ')],
    ['empty', info.emptyIsSuccess ? 'events without data count as SUCCESS' : undefined],
    ['stack', stack],
    ['owner', owner],
    ['expires', new Date(info.expiresAt).toISOString()],
  ];
  for (const [name, text] of rows) {
    if (text !== undefined) await printLine(stdout, `${name.padEnd(10)}${escapeName(text)}`);
  }
}

function formatHandleLine(info: HandleInfo, groups: readonly string[]): string {
  const { alias, transport, origin, isListed, minions, expiresAt, owner } = info;
  const place = isListed ? origin : `${origin} (not in handles: endpoints)`;
  const until = new Date(expiresAt).toISOString();
  const whose = owner === undefined ? '' : `, of ${owner}`;
  const listed = minions.length === 0 && groups.length > 0 ? [] : [`${minions.length} minions`];
  const who = [...listed, ...groups].join(', ');
  const text = `${alias}: ${transport} ${place}, ${who}, until ${until}${whose}`;
  return escapeName(text);
}

interface OutboxOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly handle?: string;
}

interface OutboxListOptions extends OutboxOptions {
  readonly dead?: boolean;
  readonly delivered?: boolean;
  readonly limit: number;
}

interface ChangeOptions extends OutboxOptions {
  readonly all?: boolean;
}

/**
 * Defines `saltbridge bridge outbox`, which manages signals that wait for delivery or have failed.
 */
export function addOutboxCommands(bridge: Command, context: CommandContext): void {
  const outbox = bridge.command('outbox').description('manage undelivered and failed signals');
  addOutboxList(outbox, context);
  addOutboxChange(outbox, context, 'retry', 'try to deliver failed signals again');
  addOutboxChange(outbox, context, 'drop', 'delete failed and pending signals');
}

function addOutboxList(outbox: Command, context: CommandContext): void {
  withCommonOptions(
    outbox
      .command('list')
      .description(
        'list failed signals, then pending signals, then signals that wait for a handle; oldest first',
      )
      .option('--handle <alias>', 'list only signals of this handle')
      .addOption(new Option('--dead', 'list only failed signals').conflicts('delivered'))
      .option(
        '--delivered',
        'list only signals that were delivered in the last 24 hours, latest first',
      )
      .addOption(
        new Option('--limit <number>', 'maximum number of signals')
          .argParser(parseCount)
          .default(1000),
      ),
  ).action(async ({ configDir, json, handle, dead, delivered, limit }: OutboxListOptions) => {
    const bridge = await context.openExtension(configDir, 'bridge');
    const entries = await bridge.call<readonly OutboxEntry[]>('outbox.list', {
      ...(handle === undefined ? {} : { alias: handle }),
      ...(dead === true ? { isDead: true } : {}),
      ...(delivered === true ? { isDelivered: true } : {}),
      limit,
    });
    const none =
      delivered === true
        ? 'No signal was delivered within a day.'
        : 'No signal is pending, and none has failed.';
    await printList(context, entries, { json, format: formatOutboxLine, none });
  });
}

function addOutboxChange(
  outbox: Command,
  context: CommandContext,
  name: 'drop' | 'retry',
  description: string,
): void {
  withCommonOptions(
    outbox
      .command(name)
      .description(description)
      .argument('[id]', 'id of the signal, as printed by list')
      .option('--handle <alias>', 'apply the subcommand to all signals of this handle')
      .option('--all', 'apply the subcommand to all signals'),
  ).action(async (id: string | undefined, options: ChangeOptions) => {
    const { configDir, json, handle, all } = options;
    if ([id, handle].some((it) => it !== undefined) === (all === true)) {
      throw new CommandError('ERR_ARGS', 'give the id of a signal, or add --handle or --all');
    }
    const bridge = await context.openExtension(configDir, 'bridge');
    const entries = await bridge.call<readonly OutboxEntry[]>(`outbox.${name}`, {
      ...(id === undefined ? {} : { id }),
      ...(handle === undefined ? {} : { alias: handle }),
    });
    const none = 'No signal matches.';
    await printList(context, entries, { json, format: formatOutboxLine, none });
  });
}

function formatOutboxLine(entry: OutboxEntry): string {
  const { id, alias, minion, member, status, state, acceptedAt, failures, reason, httpStatus } =
    entry;
  const sender = member === undefined ? minion : `${minion}/${member}`;
  const tries = failures === 0 ? '' : `, ${failures} attempts failed`;
  const done = state === 'delivered' && httpStatus !== undefined ? ` (${httpStatus})` : '';
  const why = reason === undefined ? done : `: ${reason}`;
  const when = new Date(acceptedAt).toISOString();
  return escapeName(`${when} ${id} ${state} ${alias} ${status} from ${sender}${tries}${why}`);
}
