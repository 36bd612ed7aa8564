import { type Command, Option } from 'commander';
import type { ReactionInfo, ReactionRun } from '#master';
import type { CommandContext } from '../context.ts';
import { parseCount, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';

interface ReactionOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface RunsOptions extends ReactionOptions {
  readonly limit: number;
}

/** Defines `saltbridge reactions`, which shows reactions and their runs. */
export function defineReactions(command: Command, context: CommandContext): void {
  addList(command, context);
  addShow(command, context);
  addRuns(command, context);
}

function addList(reactions: Command, context: CommandContext): void {
  withCommonOptions(
    reactions.command('list').description('list the reactions of the running master'),
  ).action(async ({ configDir, json }: ReactionOptions) => {
    const list = await (await context.openApi(configDir)).reactions.list();
    await printList(context, list, {
      json,
      format: formatLine,
      none: 'No reaction is configured.',
    });
  });
}

function addShow(reactions: Command, context: CommandContext): void {
  withCommonOptions(
    reactions.command('show').description('show one reaction and its limits').argument('<name>'),
  ).action(async (name: string, { configDir, json }: ReactionOptions) => {
    const info = await (await context.openApi(configDir)).reactions.show(name);
    if (json) await printJson(context.stdout, info);
    else await printLine(context.stdout, formatReaction(info));
  });
}

function addRuns(reactions: Command, context: CommandContext): void {
  withCommonOptions(
    reactions
      .command('runs')
      .description('list the unfinished runs of reactions, then the latest finished runs')
      .argument('[name]', 'name of the reaction (default: all)')
      .addOption(
        new Option('--limit <number>', 'maximum number of runs').argParser(parseCount).default(20),
      ),
  ).action(async (name: string | undefined, { configDir, json, limit }: RunsOptions) => {
    const api = await context.openApi(configDir);
    const of = name === undefined ? {} : { reaction: name };
    const runs = await api.reactions.runs({ ...of, limit });
    await printList(context, runs, { json, format: formatRun, none: 'No run is stored.' });
  });
}

function formatLine({ name, on, do: action, waiting, running }: ReactionInfo): string {
  const busy = `${running} running, ${waiting} waiting`;
  return escapeName(`${name}: ${[on].flat().join(', ')} -> ${formatAction(action)} (${busy})`);
}

function formatAction(action: ReactionInfo['do']): string {
  if ('sls' in action) return action.sls;
  if ('command' in action) return `command ${action.command.name}`;
  return 'run' in action ? action.run.fun : `runner ${action.runner.fun}`;
}

function formatReaction(info: ReactionInfo): string {
  const { do: action, origin, throttleSeconds, throttleKey } = info;
  const by = throttleKey.length === 0 ? '' : ` by ${throttleKey.join(', ')}`;
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['reaction', info.name],
    ['written', origin === undefined ? undefined : `${origin.file}:${origin.line}`],
    ['on', [info.on].flat().join(', ')],
    ['from', info.from],
    ['do', JSON.stringify(action)],
    ['throttle', throttleSeconds === 0 ? undefined : `${throttleSeconds} s${by}`],
    ['max concurrent', `${info.maxConcurrent} (${info.running} running)`],
    ['queue', `${info.queue} (${info.waiting} waiting)`],
    ['timeout', `${info.timeoutSeconds} s`],
    ['rate', info.rate],
    ['subject', `service:reaction:${info.name}`],
  ];
  return rows
    .flatMap(([name, text]) =>
      text === undefined ? [] : [`${name.padEnd(16)}${escapeName(text)}`],
    )
    .join('\n');
}

function formatRun({
  jid,
  queuedAt,
  reaction,
  state,
  tag,
  sender,
  fun,
  reason,
}: ReactionRun): string {
  const from = sender === undefined ? '' : ` from ${sender}`;
  const why = reason === undefined ? '' : `: ${reason}`;
  const when = new Date(queuedAt).toISOString();
  return escapeName(`${when} ${jid} ${state} ${reaction}: ${fun} on ${tag}${from}${why}`);
}
