/** `saltbridge enroll`: machines on their way to being minions, and on their way out. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ExtensionClient } from '../../client/index.ts';
import type { Enrolment, NewEnrolment } from '../../heat-bridge/index.ts';
import { configOption, jsonOption, logLevelOption, parseCount } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import {
  type EnrollCreateOptions,
  enrolRequestOf,
  followEnrolment,
  formatEnrolment,
  formatEnrolmentLine,
  readMinions,
} from '../enrolments.ts';
import { printJson, printLine } from '../print.ts';

interface CommonOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

export function addEnrollCommand(program: Command, context: CommandContext): void {
  const enroll = program.command('enroll').description('make machines minions without an operator');
  const open = (configDir: string): Promise<ExtensionClient> =>
    context.openExtension(configDir, 'bridge');
  addCreate(enroll, context, open);
  addImport(enroll, context, open);
  addShowCommands(enroll, context, open);
  addRetire(enroll, context, open);
}

type Open = (configDir: string) => Promise<ExtensionClient>;

function withCommonOptions(command: Command): Command {
  return command.addOption(configOption()).addOption(jsonOption()).addOption(logLevelOption());
}

function addCreate(enroll: Command, context: CommandContext, open: Open): void {
  const create = enroll
    .command('create')
    .description("begin an enrolment, and print the machine's user-data")
    .argument('<id>', 'of the minion')
    .requiredOption('--project <name>', 'whose machine it is')
    .option('--instance <name>', 'what the cloud calls the machine; the ticket is for no other')
    .option('--address <ip>', 'where the ticket must be shown from')
    .addOption(
      new Option('--by <way>', 'how it comes to an accepted key')
        .choices(['claim', 'keys', 'grain'])
        .default('claim'),
    )
    .addOption(
      new Option('--format <format>', 'what reads the user-data')
        .choices(['cloud-init', 'shell', 'cloudbase-init'])
        .default('cloud-init'),
    )
    .option('--minion-config <dir>', "folder of the minion's configuration, if not /etc/salt")
    .option('--beside <file>', 'user-data that the machine gets besides')
    .option('--lifetime <seconds>', 'how long the ticket is good for', parseCount)
    .option('--expires <time>', 'when its key ends: 90m, 12h, 30d, or a date')
    .option('--protocol <n>', 'lowest protocol version that it is heard in', parseProtocol)
    .option('--ticket', 'print the ticket alone; no user-data is made')
    .option('--wait', 'wait until the minion has signed in');
  withCommonOptions(create).action(
    async (id: string, options: EnrollCreateOptions & CommonOptions) => {
      const bridge = await open(options.configDir);
      const request = await enrolRequestOf(id, options);
      const made = await bridge.call<NewEnrolment>('enroll.create', request);
      if (options.json) await printJson(context.stdout, made);
      else if (options.ticket) await printLine(context.stdout, made.ticket);
      else context.stdout.write(made.userData);
      await printLine(context.stderr, `Enrolment ${made.enrolment.number}`);
      if (options.wait) await followEnrolment(bridge, made.enrolment.number, context);
    },
  );
}

function addImport(enroll: Command, context: CommandContext, open: Open): void {
  const command = enroll
    .command('import')
    .description('accept the keys of many minions, all of them or none')
    .argument('<file>', 'JSON: a list of {id, publicKey or fingerprint, project?}; - for stdin')
    .option('--project <name>', 'for those that say none');
  withCommonOptions(command).action(
    async (file: string, options: CommonOptions & { readonly project?: string }) => {
      const minions = await readMinions(file, options.project, context);
      const bridge = await open(options.configDir);
      const made = await bridge.call<readonly Enrolment[]>('enroll.import', { minions });
      if (options.json) await printJson(context.stdout, made);
      else for (const one of made) await printLine(context.stdout, formatEnrolmentLine(one));
    },
  );
}

function addShowCommands(enroll: Command, context: CommandContext, open: Open): void {
  const list = enroll.command('list').description('list enrolments');
  withCommonOptions(list).action(async ({ configDir, json }: CommonOptions) => {
    const all = await (await open(configDir)).call<readonly Enrolment[]>('enroll.list');
    if (json) return printJson(context.stdout, all);
    if (all.length === 0) await printLine(context.stderr, 'Nothing has been enrolled.');
    for (const one of all) await printLine(context.stdout, formatEnrolmentLine(one));
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
    .description('wait until a minion has signed in, or cannot')
    .argument('<number>');
  withCommonOptions(wait).action(async (number: string, { configDir }: CommonOptions) => {
    await followEnrolment(await open(configDir), number, context);
  });
}

function addRetire(enroll: Command, context: CommandContext, open: Open): void {
  const command = enroll
    .command('retire')
    .description('end all that a machine has: key, connections, mine, jobs')
    .argument('[id]', 'of its minion')
    .option('--instance <name>', 'what the cloud calls it');
  withCommonOptions(command).action(
    async (id: string | undefined, options: CommonOptions & { readonly instance?: string }) => {
      const { instance } = options;
      if ((id === undefined) === (instance === undefined)) {
        command.error('expected an id, or --instance', { exitCode: 64 });
      }
      const machine = id === undefined ? { instance } : { id };
      await (await open(options.configDir)).call<null>('enroll.retire', machine);
      if (!options.json) await printLine(context.stdout, 'Retired.');
    },
  );
}

function parseProtocol(text: string): number {
  if (!/^[0-3]$/.test(text)) throw new InvalidArgumentError('expected 0 to 3.');
  return Number(text);
}
