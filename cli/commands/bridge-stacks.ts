import type { Command } from 'commander';
import type {
  DeploymentInfo,
  StackDetails,
  StackInfo,
  StackRegistration,
} from '../../heat-bridge/index.ts';
import { tryParseJson } from '../../runtime/index.ts';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError } from '../errors.ts';
import { configOption, jsonOption, logLevelOption } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface StackOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly owner?: string;
}

/** `saltbridge bridge stack`. */
export function addStackCommands(bridge: Command, context: CommandContext): void {
  const stack = bridge
    .command('stack')
    .description('manage Heat stacks whose software deployments run');
  addStackAdd(stack, context);
  addStackList(stack, context);
  addStackShow(stack, context);
  addStackRemove(stack, context);
}

function addStackAdd(stack: Command, context: CommandContext): void {
  stack
    .command('add')
    .description('register a stack: its servers, minions and credentials')
    .argument('<name>', 'name of the registration')
    .argument('<file>', 'registration as JSON, see docs/deployments.md; - reads standard input')
    .option('--owner <name>', 'owner of the stack, for instance a project')
    .option('--replace', 'replace the existing stack of this name')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(
      async (
        name: string,
        file: string,
        { configDir, json, owner, replace = false }: StackOptions & { readonly replace?: boolean },
      ) => {
        // A file, because what stands on a command line is seen by everybody on the machine.
        const registration = parseRegistration(await readFileOrStandardInput(file, context), name);
        const bridge = await context.openExtension(configDir, 'bridge');
        const info = await bridge.call<StackInfo>('stacks.add', {
          registration,
          replaces: replace,
          ...(owner === undefined ? {} : { owner }),
        });
        if (json) await printJson(context.stdout, info);
        else await printLine(context.stdout, formatStackLine(info));
        if (info.unlisted.length === 0) return;
        const advice = 'list it under saltbridge: bridge: handles: endpoints';
        await printLine(context.stderr, `Not asked: ${info.unlisted.join(', ')}; ${advice}.`);
      },
    );
}

function parseRegistration(text: string, name: string): StackRegistration {
  const given: unknown = tryParseJson(text);
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) {
    return { ...given, name };
  }
  throw new CommandError('ERR_ARGS', 'the file: expected a map in JSON');
}

function addStackList(stack: Command, context: CommandContext): void {
  stack
    .command('list')
    .description('list registered stacks')
    .option('--owner <name>', 'only stacks of this owner')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json, owner }: StackOptions) => {
      const bridge = await context.openExtension(configDir, 'bridge');
      const of = owner === undefined ? {} : { owner };
      const list = await bridge.call<readonly StackInfo[]>('stacks.list', of);
      if (json) return printJson(context.stdout, list);
      if (list.length === 0) await printLine(context.stderr, 'No stack is registered.');
      for (const info of list) await printLine(context.stdout, formatStackLine(info));
    });
}

function addStackShow(stack: Command, context: CommandContext): void {
  const description = 'show a stack, its servers and its deployments, without secrets';
  addSubcommand(stack, context, { name: 'show', description }, async (details: StackDetails) => {
    await printLine(context.stdout, formatStackLine(details));
    for (const { server, minion, problem } of details.followed) {
      const why = problem === undefined ? '' : `: ${problem}`;
      const line = `server ${server} is ${minion ?? 'no minion yet'}${why}`;
      await printLine(context.stdout, escapeName(line));
    }
    for (const deployment of details.deployments) {
      await printLine(context.stdout, formatDeploymentLine(deployment));
    }
  });
}

function addStackRemove(stack: Command, context: CommandContext): void {
  const description = 'remove a stack; its deployments are not followed any more';
  addSubcommand(stack, context, { name: 'remove', description }, async (info: StackInfo) =>
    printLine(context.stdout, formatStackLine(info)),
  );
}

/** A subcommand about one stack. @param print - what `--json` does not */
function addSubcommand<Info extends object>(
  stack: Command,
  context: CommandContext,
  { name, description }: { readonly name: 'remove' | 'show'; readonly description: string },
  print: (info: Info) => Promise<void>,
): void {
  stack
    .command(name)
    .description(description)
    .argument('<name>')
    .option('--owner <name>', 'owner of the stack, if several owners have this name')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (of: string, { configDir, json, owner }: StackOptions) => {
      const bridge = await context.openExtension(configDir, 'bridge');
      const which = { name: of, ...(owner === undefined ? {} : { owner }) };
      const info: Info = await bridge.call(`stacks.${name}`, which);
      await (json ? printJson(context.stdout, info) : print(info));
    });
}

function formatStackLine({ name, stack, servers, minions, owner }: StackInfo): string {
  const what = stack === undefined ? '' : ` stack ${stack},`;
  const whose = owner === undefined ? '' : `, of ${owner}`;
  const counts = `${servers.length} servers named, ${minions.length} minions listed`;
  return escapeName(`${name}:${what} ${counts}${whose}`);
}

function formatDeploymentLine(deployment: DeploymentInfo): string {
  const {
    begunAt,
    name,
    action = '-',
    server,
    minion,
    command = '-',
    state,
    end,
    reason,
  } = deployment;
  const when = new Date(begunAt).toISOString();
  const how = end === undefined ? state : `${state} (${end})`;
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeName(`${when} ${name} ${action} ${server}/${minion} ${command} ${how}${why}`);
}
