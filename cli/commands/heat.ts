/**
 * `saltbridge heat`: checks, completes and registers Heat templates in which resources have roles
 * and exchange values.
 */

import { type Command, Option } from 'commander';
import type { CompiledTemplate, CompileOptions, HeatTemplates, PreparedRoles } from '#guests';
import type { NewEnrolment } from '#heat-bridge';
import { tryParseJson } from '#runtime';
import { type CommandContext, readFileOrStandardInput } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { loadBridge, loadGuests } from '../load-bridge.ts';
import { configOption, logLevelOption } from '../options.ts';
import { escapeLine, printJson, printLine } from '../terminal.ts';

interface HeatCompileOptions {
  readonly print: 'picture' | 'roles' | 'template';
  readonly picture?: 'mermaid' | 'svg';
  readonly format: 'cloud-init' | 'shell';
  readonly minionConfig: string;
}

interface HeatPrepareOptions {
  readonly configDir: string;
  readonly stack: string;
  readonly project: string;
  readonly minionId: string;
  readonly owner?: string;
  readonly replace?: boolean;
}

export function defineHeat(command: Command, context: CommandContext): void {
  addCompile(command, context);
  addPrepare(command, context);
}

function addCompile(heat: Command, context: CommandContext): void {
  heat
    .command('compile')
    .description('check the roles in a template, and print a template that Heat accepts')
    .argument(
      '<file>',
      'template with roles in its metadata, see docs/data-spaces.md; - reads standard input',
    )
    .addOption(
      new Option(
        '--print <what>',
        'what to print: the template for Heat, the roles for heat prepare, or a picture of the values',
      )
        .choices(['template', 'roles', 'picture'])
        .default('template'),
    )
    .addOption(
      new Option('--picture <form>', 'print a picture of the values in this format')
        .choices(['mermaid', 'svg'])
        .conflicts('print'),
    )
    .addOption(
      new Option('--format <name>', 'program on the machines that executes the user-data')
        .choices(['cloud-init', 'shell'])
        .default('cloud-init'),
    )
    .option('--minion-config <dir>', 'configuration directory of the minions', '/etc/salt')
    .addOption(logLevelOption())
    .action(async (file: string, options: HeatCompileOptions) => {
      const { picture, format, minionConfig: configDir } = options;
      const print = picture === undefined ? options.print : 'picture';
      const text = await readFileOrStandardInput(file, context);
      const compiled = await compileOrProblems(text, { format, configDir });
      if (typeof compiled === 'string') {
        for (const problem of compiled.split('\n')) {
          await printLine(context.stderr, escapeLine(problem));
        }
        context.setExitCode(exitCodes.usage);
        return;
      }
      const { template, roles, machines, flows, warnings } = compiled;
      for (const warning of warnings) await printLine(context.stderr, escapeLine(warning));
      if (print === 'template') context.stdout.write(template);
      if (print === 'roles')
        await printJson(context.stdout, { format, configDir, roles, machines });
      if (print === 'picture') {
        const { drawFlows, drawFlowsAsSvg } = await loadTemplates();
        const draw = picture === 'svg' ? drawFlowsAsSvg : drawFlows;
        context.stdout.write(draw([...new Set(machines.map(({ role }) => role))], flows));
      }
    });
}

/** Compiles a template. For an invalid template, the error message has a line for each problem. */
async function compileOrProblems(
  text: string,
  options: CompileOptions,
): Promise<CompiledTemplate | string> {
  const { BridgeError } = await loadBridge();
  const { compileTemplate } = await loadTemplates();
  try {
    return compileTemplate(text, options);
  } catch (error) {
    if (error instanceof BridgeError) return error.message;
    throw error;
  }
}

function addPrepare(heat: Command, context: CommandContext): void {
  heat
    .command('prepare')
    .description(
      'register the data space of a stack, enrol its machines, and print the environment for Heat',
    )
    .argument('<file>', 'output of heat compile --print roles; - reads standard input')
    .requiredOption('--stack <name>', 'name of the stack, and of its data space')
    .requiredOption('--project <name>', 'project of the machines')
    .option(
      '--minion-id <pattern>',
      'pattern of the minion ids, with the placeholders {stack}, {project}, {resource} and {role}',
      '{resource}.{stack}',
    )
    .option('--owner <name>', 'owner of the data space, for example a project')
    .option(
      '--replace',
      'replace the settings of the data space with this name, but not its values',
    )
    .addOption(configOption())
    .addOption(logLevelOption())
    .action(async (file: string, options: HeatPrepareOptions) => {
      const prepared = await parseRoles(await readFileOrStandardInput(file, context));
      const { stack, project, owner, replace = false } = options;
      const idOf = (machine: PreparedRoles['machines'][number]): string =>
        fillPattern(options.minionId, { stack, project, ...machine });
      const { spaceOf } = await loadTemplates();
      const bridge = await context.openExtension(options.configDir, 'bridge');
      await bridge.call('data.add', {
        registration: spaceOf(stack, prepared, idOf),
        replaces: replace,
        ...(owner === undefined ? {} : { owner }),
      });
      const { format, configDir } = prepared;
      const parameters: Record<string, string> = {};
      for (const machine of prepared.machines) {
        const { parameter } = machine;
        if (parameter === undefined) continue;
        const request = { id: idOf(machine), project, format, configDir };
        const { userData } = await bridge.call<NewEnrolment>('enroll.create', request);
        parameters[parameter] = userData;
      }
      // The output is JSON, which is valid YAML, so that Heat can read it as an environment.
      await printJson(context.stdout, { parameters });
    });
}

/** Loads the compiler of Heat templates on demand. */
async function loadTemplates(): Promise<HeatTemplates> {
  return (await loadGuests()).loadHeatTemplates();
}

/**
 * Parses the output of `heat compile --print roles`.
 * @throws CommandError ERR_ARGS if it is not JSON; BridgeError ERR_DATA_FORM if its form is invalid
 */
async function parseRoles(text: string): Promise<PreparedRoles> {
  const given: unknown = tryParseJson(text);
  if (given !== undefined) return (await loadTemplates()).parsePreparedRoles(given);
  throw new CommandError('ERR_ARGS', 'the file is not output of heat compile --print roles');
}

function fillPattern(
  pattern: string,
  {
    stack,
    project,
    resource,
    role,
  }: {
    readonly stack: string;
    readonly project: string;
    readonly resource: string;
    readonly role: string;
  },
): string {
  const values = new Map(Object.entries({ stack, project, resource, role }));
  return pattern.replaceAll(
    /\{(stack|project|resource|role)\}/g,
    (_, name: string) => values.get(name) ?? '',
  );
}
