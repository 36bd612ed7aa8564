import path from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { loadMasterConfig, placeOf } from '#config';
import type {
  CommandInfo,
  CommandUpdate,
  PlanInfo,
  PlanOutcome,
  PlanStarted,
  PlanUpdate,
  RunStarted,
} from '#heat-bridge';
import { readMarkedJson, writeMarkedJson } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { loadBridge, loadGuests } from '../load-bridge.ts';
import { configOption, logLevelOption, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine, printList } from '../terminal.ts';
import { addDataCommands } from './bridge-data.ts';
import { addHandleCommands, addOutboxCommands } from './bridge-signals.ts';
import { addStackCommands } from './bridge-stacks.ts';
import { narrowedTarget } from './salt-output.ts';

/** Target of each group of a plan, by the name of the group. */
type GroupTargets = Readonly<Record<string, string | readonly string[]>>;

/** Options that all commands for plans have. */
interface PlanOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Options of `saltbridge bridge plan run`. */
interface RunPlanOptions extends PlanOptions {
  readonly group: GroupTargets;
  readonly params?: WireValue;
  readonly key?: string;
  readonly project?: string;
  readonly service?: string;
}

/** Adds the commands for plan runs to `saltbridge bridge`. */
function addPlanCommands(bridge: Command, context: CommandContext): void {
  withCommonOptions(
    bridge
      .command('follow')
      .description('print all updates of a run of a plan, oldest first')
      .argument('<id>'),
  ).action(async (id: string, options: PlanOptions) => {
    const api = await context.openExtension(options.configDir, 'bridge');
    await printPlanUpdates(api.stream('followPlan', { id }), options, context);
  });
  withCommonOptions(
    bridge
      .command('cancel')
      .description('cancel a run of a plan, undo the completed steps, and print the outcome')
      .argument('<id>')
      .option('--no-undo', 'do not undo the completed steps of the plan'),
  ).action(async (id: string, { configDir, json, undo }: PlanOptions & { undo: boolean }) => {
    const api = await context.openExtension(configDir, 'bridge');
    const outcome = await api.call<PlanOutcome>('cancelPlan', { id, undo });
    if (json) return printJson(context.stdout, outcome);
    await printLine(context.stdout, `Run ${outcome.id} ${outcome.status}.`);
  });
}

/** Runs a plan and prints its updates as they arrive. */
async function runPlan(
  plan: string,
  { group: groups, params, key, project, service, ...options }: RunPlanOptions,
  context: CommandContext,
): Promise<void> {
  const api = await context.openExtension(options.configDir, 'bridge');
  const request = {
    plan,
    groups,
    ...(params === undefined ? {} : { params }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(project === undefined ? {} : { project }),
    ...(service === undefined ? {} : { service }),
  };
  await printPlanUpdates(api.stream('runPlan', request), options, context);
}

/**
 * Parses `NAME=TARGET`, and adds the group to the groups in `before`. The target is a glob on ids,
 * or several ids separated by commas.
 */
export function parseGroupTarget(text: string, before: GroupTargets = {}): GroupTargets {
  const [name = '', target = '', ...more] = text.split('=');
  if (name === '' || target === '' || more.length > 0) {
    throw new InvalidArgumentError('the value must have the form NAME=TARGET.');
  }
  if (Object.hasOwn(before, name))
    throw new InvalidArgumentError('the same group is given twice; give each group one target.');
  return { ...before, [name]: target.includes(',') ? target.split(',') : target };
}

async function printPlanUpdates(
  updates: AsyncIterable<PlanStarted | PlanUpdate>,
  { json }: Pick<PlanOptions, 'json'>,
  context: CommandContext,
): Promise<void> {
  for await (const update of updates) {
    if (update.type === 'outcome' && update.outcome.status !== 'succeeded') {
      context.setExitCode(exitCodes.failure);
    }
    // The update came over the local socket, so its values are wire values of Salt.
    if (json) {
      const line = writeMarkedJson(update);
      await printLine(context.stdout, line);
    } else await printPlanUpdate(update, context);
  }
}

async function printPlanUpdate(
  update: PlanStarted | PlanUpdate,
  context: CommandContext,
): Promise<void> {
  switch (update.type) {
    case 'begun': {
      const how = update.isRepeated ? 'exists already' : 'begins';
      if (update.narrowed.length > 0) await printLine(context.stderr, narrowedTarget);
      return printLine(context.stderr, `Run ${update.id} ${how}.`);
    }
    case 'step': {
      const { step, kind, state, minions, steps, reason } = update;
      const counts = `${minions.succeeded} of ${minions.all} minions; ${steps.ended} of ${steps.all} steps have ended`;
      const why = reason === undefined ? '' : ` (${reason})`;
      return printLine(
        context.stderr,
        escapeName(`${titleOf(step, kind)} ${state}${why}: ${counts}`),
      );
    }
    case 'result': {
      const { step, kind, result } = update;
      const { minion, state, return: value, reason } = result;
      const why = reason === undefined ? '' : ` (${reason})`;
      const text = value === undefined ? '' : ` ${writeMarkedJson(value)}`;
      const line = `${titleOf(step, kind)} ${minion}: ${state}${why}${text}`;
      return printLine(context.stdout, escapeName(line));
    }
    case 'outcome': {
      const { id, status, undone } = update.outcome;
      const stuck = undone.filter((it) => it.status !== 'succeeded').map(({ step }) => step);
      const rest = stuck.length === 0 ? '' : ` Not undone: ${stuck.join(', ')}.`;
      return printLine(context.stderr, `Run ${id} ${status}.${rest}`);
    }
  }
}

function titleOf(step: string, kind: 'do' | 'undo'): string {
  return kind === 'do' ? step : `undo of ${step}`;
}

interface BridgeOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface RunOptions extends BridgeOptions {
  readonly target?: string;
  readonly group?: GroupTargets;
  readonly targetType?: string;
  readonly params?: WireValue;
  readonly key?: string;
  readonly project?: string;
  readonly service?: string;
}

/** Adds the commands for the catalog to `saltbridge bridge`. */
function addNamedCommands(bridge: Command, context: CommandContext): void {
  addLint(bridge, context);
  addList(bridge, context);
  addShow(bridge, context);
  addRun(bridge, context);
  addPage(
    bridge,
    context,
    'docs',
    'print a Markdown page about the commands and plans, without a running master',
  );
  addPage(
    bridge,
    context,
    'types',
    'print TypeScript declarations of commands and plans, without a running master',
  );
}

function addLint(bridge: Command, context: CommandContext): void {
  withCommonOptions(
    bridge
      .command('lint')
      .description('check the files of a catalog, without a running master')
      .argument('[places...]', 'files or directories (default: those of the configuration)'),
  ).action(async (places: readonly string[], { configDir, json }: BridgeOptions) => {
    const { loadCatalog } = await loadGuests();
    const loaded = await loadCatalog(await catalogPaths(places, configDir));
    const { definitions, plans, findings } = loaded;
    const counts = { commands: definitions.length, plans: plans.length };
    if (json) await printJson(context.stdout, { ...counts, findings });
    for (const finding of json ? [] : findings) {
      const text = `${placeOf(finding)}: ${finding.problem}`;
      await printLine(context.stdout, escapeName(text));
    }
    const planned = plans.length === 0 ? '' : ` and ${plans.length} plans`;
    if (!json)
      await printLine(context.stderr, `${definitions.length} commands${planned} are valid.`);
    if (findings.length > 0) context.setExitCode(exitCodes.failure);
  });
}

function addList(bridge: Command, context: CommandContext): void {
  withCommonOptions(
    bridge
      .command('list')
      .description('list the commands and plans of the running master')
      .option(
        '--service <name>',
        'list only commands and plans that the policy permits this service to run',
      ),
  ).action(async ({ configDir, json, service }: BridgeOptions & { service?: string }) => {
    const api = await context.openExtension(configDir, 'bridge');
    const by = service === undefined ? {} : { service };
    const commands = await api.call<readonly CommandInfo[]>('commands', by);
    const list = [...commands, ...(await api.call<readonly PlanInfo[]>('plans', by))];
    await printList(context, list, { json, format: formatInfo, none: 'The catalog is empty.' });
  });
}

function formatInfo({ name, description, deprecated }: CommandInfo | PlanInfo): string {
  const note = deprecated === undefined ? '' : ' (deprecated)';
  return escapeName(`${name}: ${description}${note}`);
}

function addShow(bridge: Command, context: CommandContext): void {
  withCommonOptions(
    bridge
      .command('show')
      .description('show one command or plan and its parameters')
      .argument('<name>'),
  ).action(async (name: string, { configDir, json }: BridgeOptions) => {
    const api = await context.openExtension(configDir, 'bridge');
    const plans = await api.call<readonly PlanInfo[]>('plans');
    const plan = plans.find((it) => it.name === name);
    const info = plan ?? (await api.call<CommandInfo>('command', { name }));
    if (json) return printJson(context.stdout, info);
    const { parameters, ...rest } = info;
    for (const [key, value] of Object.entries(rest)) {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      await printLine(context.stdout, `${key.padEnd(12)}${escapeName(text)}`);
    }
    await printLine(context.stdout, `parameters  ${JSON.stringify(parameters)}`);
  });
}

function addRun(bridge: Command, context: CommandContext): void {
  withCommonOptions(
    bridge
      .command('run')
      .description('run a command or a plan and print the results')
      .argument('<name>')
      .option('-t, --target <target>', 'target of a command: a glob on ids, unless -T is given')
      .option('-T, --target-type <type>', 'target type, as in Salt: list, compound, …')
      .option(
        '-g, --group <name=target>',
        'minions for a group of a plan: a glob on ids, or ids separated by commas',
        parseGroupTarget,
      )
      .option('-p, --params <json>', 'parameters, as a JSON object', parseParameters)
      .option(
        '--key <key>',
        'idempotency key; a second call with the same key returns the run of the first call',
      )
      .option(
        '--project <name>',
        'project of the idempotency key; the key is unique within the project',
      )
      .option(
        '--service <name>',
        'apply the rules for this service to the call (default: no restrictions)',
      ),
  ).action(async (command: string, { group, target, ...options }: RunOptions) => {
    if (group !== undefined) return runPlan(command, { ...options, group }, context);
    if (target === undefined) {
      throw new CommandError(
        'ERR_ARGS',
        'add -t TARGET to run a command, or -g NAME=TARGET to run a plan',
      );
    }
    const api = await context.openExtension(options.configDir, 'bridge');
    const updates = api.stream<RunStarted | CommandUpdate>(
      'run',
      toRunParameters(command, { ...options, target }),
    );
    for await (const update of updates) await printCommandUpdate(update, options, context);
  });
}

function toRunParameters(
  command: string,
  options: RunOptions & { readonly target: string },
): object {
  const { target: tgt, targetType, params, key, project, service } = options;
  return {
    command,
    tgt,
    ...(targetType === undefined ? {} : { tgtType: targetType }),
    ...(params === undefined ? {} : { params }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(project === undefined ? {} : { project }),
    ...(service === undefined ? {} : { service }),
  };
}

async function printCommandUpdate(
  update: RunStarted | CommandUpdate,
  { json }: RunOptions,
  context: CommandContext,
): Promise<void> {
  if (update.type === 'outcome' && update.outcome.status !== 'succeeded') {
    context.setExitCode(exitCodes.failure);
  }
  // The update came over the local socket, so its values are wire values of Salt.
  if (json) return printLine(context.stdout, writeMarkedJson(update));
  switch (update.type) {
    case 'begun': {
      const how = update.isRepeated ? 'exists already' : 'begins';
      return printLine(context.stderr, `Run ${update.id} ${how}.`);
    }
    case 'result': {
      const { minion, state, return: value, reason } = update.result;
      const why = reason === undefined ? '' : ` (${reason})`;
      const text = value === undefined ? '' : ` ${writeMarkedJson(value)}`;
      return printLine(context.stdout, escapeName(`${minion}: ${state}${why}${text}`));
    }
    case 'outcome':
      if (update.outcome.isNarrowed) await printLine(context.stderr, narrowedTarget);
      return printLine(context.stderr, `Run ${update.outcome.id} ${update.outcome.status}.`);
    default:
      return undefined;
  }
}

function addPage(
  bridge: Command,
  context: CommandContext,
  name: 'docs' | 'types',
  description: string,
): void {
  bridge
    .command(name)
    .description(description)
    .argument('[places...]', 'files or directories (default: those of the configuration)')
    .addOption(configOption())
    .addOption(logLevelOption())
    .action(async (places: readonly string[], { configDir }: BridgeOptions) => {
      const { BridgeError, catalogPage } = await loadBridge();
      const { loadCatalog } = await loadGuests();
      const loaded = await loadCatalog(await catalogPaths(places, configDir));
      const [first] = loaded.findings;
      if (first !== undefined) {
        throw new BridgeError('ERR_CATALOG', `${placeOf(first)}: ${first.problem}`);
      }
      await printLine(context.stdout, catalogPage(name, loaded).trimEnd());
    });
}

/**
 * Returns the paths of catalog files and directories: those on the command line, or those in the
 * configuration.
 */
async function catalogPaths(
  given: readonly string[],
  configDir: string,
): Promise<readonly string[]> {
  if (given.length > 0) return given;
  const { config } = await loadMasterConfig(configDir);
  const { catalog = [] } = config.bridge ?? {};
  const places = [catalog].flat().filter((place) => typeof place === 'string');
  return places.map((place) => path.resolve(path.dirname(config.confFile), place));
}

export function parseParameters(text: string): WireValue {
  try {
    const value = readMarkedJson(text);
    if (isWireMap(value)) return value;
  } catch {
    // Ignore invalid JSON here, because it is reported below.
  }
  throw new InvalidArgumentError('the value is not a JSON object.');
}

/** Defines `saltbridge bridge`. Its subcommands call the bridge of the running master. */
export function defineBridge(command: Command, context: CommandContext): void {
  addNamedCommands(command, context);
  addPlanCommands(command, context);
  addHandleCommands(command, context);
  addOutboxCommands(command, context);
  addStackCommands(command, context);
  addDataCommands(command, context);
}
