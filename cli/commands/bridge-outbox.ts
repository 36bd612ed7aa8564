import { type Command, Option } from 'commander';
import type { OutboxEntry } from '../../heat-bridge/index.ts';
import { configOption, jsonOption, logLevelOption, parseCount } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import { escapeName } from '../output/escape.ts';
import { printJson, printLine } from '../print.ts';

interface OutboxOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly handle?: string;
}

interface ListOptions extends OutboxOptions {
  readonly dead?: boolean;
  readonly limit: number;
}

interface ChangeOptions extends OutboxOptions {
  readonly all?: boolean;
}

/** `saltbridge bridge outbox`. */
export function addOutboxCommands(bridge: Command, context: CommandContext): void {
  const outbox = bridge.command('outbox').description('signals on their way, and those given up');
  addList(outbox, context);
  addChange(outbox, context, 'retry', 'try signals again that were given up');
  addChange(outbox, context, 'drop', 'forget signals, also those that wait');
}

function addList(outbox: Command, context: CommandContext): void {
  outbox
    .command('list')
    .description('list signals that were given up, then those that wait or are held; oldest first')
    .option('--handle <alias>', 'of one handle only')
    .option('--dead', 'only those that were given up')
    .addOption(
      new Option('--limit <number>', 'at most so many').argParser(parseCount).default(1000),
    )
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json, handle, dead, limit }: ListOptions) => {
      const bridge = await context.openExtension(configDir, 'bridge');
      const entries = await bridge.call<readonly OutboxEntry[]>('outbox.list', {
        ...(handle === undefined ? {} : { alias: handle }),
        ...(dead === true ? { isDead: true } : {}),
        limit,
      });
      await print(entries, json, 'No signal waits, and none was given up.', context);
    });
}

function addChange(
  outbox: Command,
  context: CommandContext,
  name: 'drop' | 'retry',
  description: string,
): void {
  outbox
    .command(name)
    .description(description)
    .argument('[id]', 'of a signal, as list shows it')
    .option('--handle <alias>', 'those of one handle')
    .option('--all', 'all of them')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (id: string | undefined, options: ChangeOptions) => {
      const { configDir, json, handle, all } = options;
      if ([id, handle].some((it) => it !== undefined) === (all === true)) {
        throw new CommandError('ERR_ARGS', 'name a signal or --handle; or else --all');
      }
      const bridge = await context.openExtension(configDir, 'bridge');
      const entries = await bridge.call<readonly OutboxEntry[]>(`outbox.${name}`, {
        ...(id === undefined ? {} : { id }),
        ...(handle === undefined ? {} : { alias: handle }),
      });
      await print(entries, json, 'No signal is meant.', context);
    });
}

async function print(
  entries: readonly OutboxEntry[],
  json: boolean | undefined,
  nothing: string,
  { stdout, stderr }: CommandContext,
): Promise<void> {
  if (json) return printJson(stdout, entries);
  if (entries.length === 0) await printLine(stderr, nothing);
  for (const entry of entries) await printLine(stdout, formatLine(entry));
}

function formatLine(entry: OutboxEntry): string {
  const { id, alias, minion, member, status, state, acceptedAt, failures, reason } = entry;
  const sender = member === undefined ? minion : `${minion}/${member}`;
  const tries = failures === 0 ? '' : `, ${failures} tries failed`;
  const why = reason === undefined ? '' : `: ${reason}`;
  const when = new Date(acceptedAt).toISOString();
  return escapeName(`${when} ${id} ${state} ${alias} ${status} from ${sender}${tries}${why}`);
}
