import type { Command } from 'commander';
import type { DataSpaceDetails, DataSpaceInfo } from '../../heat-bridge/index.ts';
import { tryParseJson } from '../../runtime/index.ts';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError } from '../errors.ts';
import { configOption, jsonOption, logLevelOption } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface DataOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly owner?: string;
}

/** `saltbridge bridge data`. */
export function addDataCommands(bridge: Command, context: CommandContext): void {
  const data = bridge
    .command('data')
    .description('manage data spaces: values that the minions of a stack write for each other');
  addDataAdd(data, context);
  addDataList(data, context);
  addDataShow(data, context);
  addDataRemove(data, context);
}

function addDataAdd(data: Command, context: CommandContext): void {
  data
    .command('add')
    .description('register a data space: the roles of a stack, and their minions')
    .argument('<name>', 'name of the data space')
    .argument('<file>', 'registration as JSON, see docs/guests.md; - reads standard input')
    .option('--owner <name>', 'owner of the data space, for instance a project')
    .option('--replace', 'replace the existing space of this name; its values stay')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(
      async (
        name: string,
        file: string,
        { configDir, json, owner, replace = false }: DataOptions & { readonly replace?: boolean },
      ) => {
        const registration = parseMap(await readFileOrStandardInput(file, context));
        const bridge = await context.openExtension(configDir, 'bridge');
        const info = await bridge.call<DataSpaceInfo>('data.add', {
          registration: { ...registration, name },
          replaces: replace,
          ...(owner === undefined ? {} : { owner }),
        });
        await (json ? printJson(context.stdout, info) : printSpace(info, context));
      },
    );
}

function parseMap(text: string): object {
  const given: unknown = tryParseJson(text);
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given;
  throw new CommandError('ERR_ARGS', 'the file: expected a map in JSON');
}

function addDataList(data: Command, context: CommandContext): void {
  data
    .command('list')
    .description('list data spaces')
    .option('--owner <name>', 'only data spaces of this owner')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json, owner }: DataOptions) => {
      const bridge = await context.openExtension(configDir, 'bridge');
      const of = owner === undefined ? {} : { owner };
      const list = await bridge.call<readonly DataSpaceInfo[]>('data.list', of);
      if (json) return printJson(context.stdout, list);
      if (list.length === 0) await printLine(context.stderr, 'No data space is registered.');
      for (const info of list) await printSpace(info, context);
    });
}

function addDataShow(data: Command, context: CommandContext): void {
  const description = 'show which values of a data space are written, without the values';
  addSubcommand(data, context, { name: 'show', description }, async (details: DataSpaceDetails) => {
    await printSpace(details, context);
    for (const { key, readers, secret, versioned, bytes } of details.values) {
      const how = [secret ? 'secret' : '', versioned ? 'versioned' : ''].filter(Boolean);
      const what = how.length === 0 ? '' : ` (${how.join(', ')})`;
      const state = bytes === undefined ? 'not written' : `${bytes} bytes`;
      const whom = readers.length === 0 ? 'nobody' : readers.join(', ');
      await printLine(context.stdout, escapeName(`${key}${what}: ${state}, read by ${whom}`));
    }
  });
}

function addDataRemove(data: Command, context: CommandContext): void {
  const description = 'remove a data space and its values';
  addSubcommand(data, context, { name: 'remove', description }, async (info: DataSpaceInfo) =>
    printSpace(info, context),
  );
}

/** A subcommand about one data space. @param print - what `--json` does not */
function addSubcommand<Info extends object>(
  data: Command,
  context: CommandContext,
  { name, description }: { readonly name: 'remove' | 'show'; readonly description: string },
  print: (info: Info) => Promise<void>,
): void {
  data
    .command(name)
    .description(description)
    .argument('<name>')
    .option('--owner <name>', 'owner of the data space, if several owners have this name')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (of: string, { configDir, json, owner }: DataOptions) => {
      const bridge = await context.openExtension(configDir, 'bridge');
      const which = { name: of, ...(owner === undefined ? {} : { owner }) };
      const info: Info = await bridge.call(`data.${name}`, which);
      await (json ? printJson(context.stdout, info) : print(info));
    });
}

async function printSpace(
  { name, owner, roles, keys }: DataSpaceInfo,
  { stdout }: Pick<CommandContext, 'stdout'>,
): Promise<void> {
  const who = Object.entries(roles).map(([role, minions]) => `${role} (${minions.join(', ')})`);
  const whose = owner === undefined ? '' : `, of ${owner}`;
  await printLine(stdout, escapeName(`${name}: ${keys} values, roles ${who.join(', ')}${whose}`));
}
