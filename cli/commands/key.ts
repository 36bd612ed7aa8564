import { type Command, Option } from 'commander';
import type { KeyState, KeysApi } from '../../master/index.ts';
import { configOption, jsonOption, logLevelOption, parseCount } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { changeKeys, type KeyChangeOptions, type KeyOperation } from '../key-change.ts';
import { generateKeyFiles } from '../key-files.ts';
import { fingerprintKeys, listKeys, printKeys } from '../key-show.ts';

interface ConfigOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface GenerateOptions {
  readonly dir: string;
  readonly name: string;
  readonly bits: number;
  readonly json?: boolean;
}

/** The states that each operation takes keys from, and those that it can be told to add. */
const operations: readonly {
  readonly operation: KeyOperation;
  readonly description: string;
  readonly include: readonly KeyState[];
}[] = [
  {
    operation: 'accept',
    description: 'let pending minions sign in',
    include: ['rejected', 'denied'],
  },
  {
    operation: 'reject',
    description: 'turn pending minions away',
    include: ['accepted', 'denied'],
  },
  { operation: 'delete', description: 'forget keys, whatever their state', include: [] },
];

/** `saltbridge key`: what `salt-key` does. */
export function addKeyCommand(program: Command, context: CommandContext): void {
  const key = program.command('key').description("see and change the minions' keys");
  addShowCommands(key, context);
  for (const { operation, description, include } of operations) {
    const command = key
      .command(operation)
      .description(description)
      .argument('<glob>', 'which ids')
      .addOption(configOption())
      .option('--fingerprint <fingerprint>', 'only the key that has this fingerprint')
      .option('-y, --yes', 'do not ask');
    for (const state of include)
      command.option(`--include-${state}`, `also keys that are ${state}`);
    if (operation === 'delete') {
      const state = new Option('--state <state>', 'only keys in this state');
      command.addOption(state.choices(['accepted', 'denied', 'pending', 'rejected']));
    }
    command
      .addOption(jsonOption())
      .addOption(logLevelOption())
      .action(async (glob: string, options: KeyChangeOptions & ConfigOptions) => {
        await withKeys(options.configDir, context, (keys) =>
          changeKeys(operation, keys, glob, options, context),
        );
      });
  }
  key
    .command('unpin')
    .description('hear an id again in a lower protocol version than it has proved')
    .argument('<id>', 'the whole id')
    .addOption(configOption())
    .addOption(logLevelOption())
    .action(async (id: string, { configDir }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) => keys.unpin(id));
    });
  addGenerateCommand(key, context);
}

function addShowCommands(key: Command, context: CommandContext): void {
  key
    .command('list')
    .description('list all keys by state')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) =>
        listKeys(keys, { isJson: json === true }, context),
      );
    });
  key
    .command('finger')
    .description('show fingerprints')
    .argument('[glob]', "which ids; without it, all and the master's own")
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (glob: string | undefined, { configDir, json }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) =>
        fingerprintKeys(keys, glob, { isJson: json === true }, context),
      );
    });
  key
    .command('print')
    .description('show public keys')
    .argument('<glob>', 'which ids')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (glob: string, { configDir, json }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) =>
        printKeys(keys, glob, { isJson: json === true }, context),
      );
    });
}

function addGenerateCommand(key: Command, context: CommandContext): void {
  key
    .command('gen')
    .description("make a minion's key pair, to be put on its machine")
    .option('--dir <dir>', 'where to write <name>.pem and <name>.pub', '.')
    .requiredOption('--name <name>', "the files' name")
    .option('--bits <n>', 'size of the key', parseCount, 2048)
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ json, ...options }: GenerateOptions) => {
      await generateKeyFiles(options, { isJson: json === true }, context);
    });
}

/** Uses the keys of the running master, or those in its PKI directory. */
async function withKeys(
  configDir: string,
  context: CommandContext,
  use: (keys: KeysApi) => Promise<void>,
): Promise<void> {
  const { keys, close } = await context.openKeys(configDir);
  try {
    await use(keys);
  } finally {
    await close();
  }
}
