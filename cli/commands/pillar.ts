import type { Command } from 'commander';
import type { MasterApi, PillarDifference, PillarExplanation, PillarInputs } from '#master';
import { traverseFacts, type WireMap, type WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { configOption, jsonOption, logLevelOption, withCommonOptions } from '../options.ts';
import { formatNested } from '../output/nested.ts';
import { formatJson } from '../output/value-text.ts';
import { escapeName, printLine } from '../terminal.ts';

type PillarQuestion = Parameters<MasterApi['pillar']['show']>[0];

type PillarOrigin = PillarExplanation['files'][number];

interface PillarOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly saltenv?: string;
  readonly pillarenv?: string;
}

/** Defines `saltbridge pillar`, which renders the pillar of a minion. */
export function definePillar(command: Command, context: CommandContext): void {
  addShow(command, context);
  addExplain(command, context);
  addDiff(command, context);
  addInputs(command, context);
}

function addShow(pillar: Command, context: CommandContext): void {
  addPillarSubcommand(
    pillar,
    'show',
    'print the pillar that a minion would get now, or the value of one key in it',
  )
    .argument(
      '[key]',
      'key in the pillar, for example users:root for a nested key; default: the whole pillar',
    )
    .action(async (minion: string, key: string | undefined, options: PillarOptions) => {
      const { pillar: api } = await context.openApi(options.configDir);
      const whole = await api.show(toPillarQuestion(minion, options));
      const value = key === undefined ? whole : traverseFacts(whole, key.split(':'));
      if (value !== undefined) {
        const text = options.json === true ? formatJson(value) : formatNested(value);
        return printLine(context.stdout, text);
      }
      await printLine(context.stderr, 'No value has this key.');
      context.setExitCode(exitCodes.failure);
    });
}

function addExplain(pillar: Command, context: CommandContext): void {
  addPillarSubcommand(
    pillar,
    'explain',
    'list the pillar files that set the value of a key; files at the end of the list override earlier files',
  )
    .argument(
      '[key]',
      'key in the pillar, for example users:root for a nested key; default: the whole pillar',
    )
    .action(async (minion: string, key: string | undefined, options: PillarOptions) => {
      const { pillar: api } = await context.openApi(options.configDir);
      const asked = { ...toPillarQuestion(minion, options), ...(key === undefined ? {} : { key }) };
      const explanation = await api.explain(asked);
      if (options.json === true)
        return printLine(context.stdout, formatJson(toWireExplanation(explanation)));
      await printLine(context.stdout, formatExplanation(explanation));
    });
}

function addDiff(pillar: Command, context: CommandContext): void {
  addPillarSubcommand(
    pillar,
    'diff',
    'show how the current pillar differs from the pillar that the minion last received',
  ).action(async (minion: string, options: PillarOptions) => {
    const { pillar: api } = await context.openApi(options.configDir);
    const changes = await api.diff(toPillarQuestion(minion, options));
    if (options.json === true) {
      const list = changes.map((change): WireMap => ({ ...change }));
      return printLine(context.stdout, formatJson(list));
    }
    if (changes.length === 0) await printLine(context.stderr, 'Nothing changes.');
    for (const change of changes) await printLine(context.stdout, formatDifference(change));
  });
}

function addInputs(pillar: Command, context: CommandContext): void {
  withCommonOptions(
    pillar
      .command('inputs')
      .description('count the compiled pillars, and list the grains that they depend on'),
  ).action((options: PillarOptions) => printPillarInputs(context, options));
}

/** Prints the number of compiled pillars and the grains that they depend on. */
async function printPillarInputs(
  context: CommandContext,
  { configDir, json }: Pick<PillarOptions, 'configDir' | 'json'>,
): Promise<void> {
  const { pillar: api } = await context.openApi(configDir);
  const inputs = await api.inputs();
  const grains = inputs.grains.map((grain): WireMap => ({ ...grain }));
  const text = json === true ? formatJson({ ...inputs, grains }) : formatInputs(inputs);
  await printLine(context.stdout, text);
}

/**
 * Returns the number of shared pillars and of pillars for a single minion as text. Adds a line for
 * each grain that pillars depend on.
 */
export function formatInputs({ shared, own, grains }: PillarInputs): string {
  const lines = grains.map(({ grain, values, pillars, isShared }) => {
    const note = isShared ? '' : '; these pillars are not shared';
    return `  ${escapeName(grain)}: ${values} values in ${pillars} pillars${note}`;
  });
  return [
    `Shared pillars: ${shared}`,
    `Pillars of one minion: ${own}`,
    ...(lines.length === 0 ? [] : ['Grains on which they depend:', ...lines]),
  ].join('\n');
}

function addPillarSubcommand(pillar: Command, name: string, description: string): Command {
  return pillar
    .command(name)
    .description(description)
    .argument('<minion>', 'id of the minion')
    .option('--saltenv <name>', 'saltenv with which the minion would request the pillar')
    .option('--pillarenv <name>', 'pillarenv with which the minion would request the pillar')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption());
}

function toPillarQuestion(minion: string, { saltenv, pillarenv }: PillarOptions): PillarQuestion {
  return {
    minion,
    ...(saltenv === undefined ? {} : { saltenv }),
    ...(pillarenv === undefined ? {} : { pillarenv }),
  };
}

function formatExplanation(explanation: PillarExplanation): string {
  const { value, followsFromGrains, files, omitted } = explanation;
  return [
    ...(omitted === 0
      ? []
      : [`${omitted} more files set this value, but the files above override them.`]),
    ...files.map(formatOrigin),
    ...(files.length === 0 ? ['No pillar file sets this value.'] : []),
    ...(followsFromGrains
      ? ['The value depends on grains, which the minion reports about itself.']
      : []),
    'Value:',
    formatNested(value, { indent: 4 }),
  ].join('\n');
}

function toWireExplanation({ files, ...rest }: PillarExplanation): WireMap {
  return { ...rest, files: files.map((origin): WireMap => ({ ...origin })) };
}

function formatOrigin({ saltenv, sls, file, line, value }: PillarOrigin): string {
  const place = `${saltenv}: ${file}${line === undefined ? '' : `:${line}`} (${sls})`;
  return `${escapeName(place)}\n${formatNested(value, { indent: 4 })}`;
}

function formatDifference({ path, before, after }: PillarDifference): string {
  return [escapeName(`${path}:`), ...prefixLines('-', before), ...prefixLines('+', after)].join(
    '\n',
  );
}

function prefixLines(mark: string, value: WireValue | undefined): string[] {
  if (value === undefined) return [];
  const lines = formatNested(value).split('\n');
  return lines.map((line) => `  ${mark} ${line}`);
}
