import { type Command, Option } from 'commander';
import { loadMasterConfig } from '#config';
import type { KeyState } from '#master';
import { type CommandDefaults, saltDefaults } from '../command-defaults.ts';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { openCommandSession } from '../login.ts';
import { addLoginOptions, eauthOf, type LoginOptions } from '../login-options.ts';
import { configOption } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { escapeName, printLine } from '../terminal.ts';
import { printSaltFailure } from './salt-failures.ts';
import { listedStates, SaltKeyActions } from './salt-key-actions.ts';
import { generateMasterSignature, generateSaltKeyPair } from './salt-key-files.ts';
import { localKeySource, type SaltKeySource, userKeySource } from './salt-key-source.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

/** Options of the command, with commander's names. */
interface SaltKeyOptions extends OutputCommandOptions, LoginOptions {
  readonly list?: string;
  readonly listAll?: boolean;
  readonly accept?: string;
  readonly acceptAll?: boolean;
  readonly reject?: string;
  readonly rejectAll?: boolean;
  readonly delete?: string;
  readonly deleteAll?: boolean;
  readonly print?: string;
  readonly printAll?: boolean;
  readonly finger?: string;
  readonly fingerAll?: boolean;
  readonly includeAll?: boolean;
  readonly includeAccepted?: boolean;
  readonly includeRejected?: boolean;
  readonly includeDenied?: boolean;
  readonly yes?: boolean;
  readonly genKeys?: string;
  readonly genKeysDir: string;
  readonly keysize: string;
  readonly genSignature?: boolean;
  readonly signaturePath?: string;
  readonly priv?: string;
  readonly pub?: string;
  readonly autoCreate?: boolean;
}

/** Adds all options, in the order of the help. */
function addSaltKeyOptions(command: Command): void {
  command
    .addOption(configOption())
    .option('-l, --list <state>', 'list keys: acc, pre (or un), rej, den, all')
    .option('-L, --list-all', 'list all keys; the default without other options')
    .option('-a, --accept <glob>', 'accept pending keys')
    .option('-A, --accept-all', 'accept all pending keys')
    .option('-r, --reject <glob>', 'reject pending keys')
    .option('-R, --reject-all', 'reject all pending keys')
    .option('--include-all', 'same as --include-accepted and --include-rejected together')
    .option('--include-accepted', 'with -r and -R: also reject accepted keys')
    .option('--include-rejected', 'with -a and -A: also accept rejected keys')
    .option('--include-denied', 'with -a, -A, -r and -R: also accept or reject denied keys')
    .option('-p, --print <glob>', 'show public keys')
    .option('-P, --print-all', 'show all public keys')
    .option('-d, --delete <glob>', 'delete keys')
    .option('-D, --delete-all', 'delete all keys')
    .option('-f, --finger <glob>', 'show fingerprints')
    .option('-F, --finger-all', 'show all fingerprints')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--gen-keys <name>', 'make a key pair')
    .option('--gen-keys-dir <dir>', 'directory for the key pair', '.')
    .option('--keysize <bits>', 'size of new keys in bits', '2048')
    .option('--gen-signature', "sign the master's public key")
    .option('--signature-path <dir>', 'directory for the signature')
    .option('--priv <file>', 'private key with which to sign')
    .option('--pub <file>', 'public key to sign')
    .option('--auto-create', 'create the key pair for signing if it does not exist');
  addLoginOptions(command, '--auth');
  addOutputOptions(command);
  command
    .option('-q, --quiet', 'accepted for compatibility; has no effect')
    .addOption(new Option('--rotate-aes-key <boolean>').hideHelp())
    .addOption(new Option('--preserve-minions <boolean>').hideHelp())
    .addOption(new Option('--log-level <level>').hideHelp());
}

/** Key sizes that Salt accepts, in bits. */
const keysizes = { minimum: 2048, maximum: 32_768 };

/**
 * Defines `saltbridge salt-key`, which accepts the flags of Salt's command and prints its output.
 */
export function defineSaltKey(command: Command, context: CommandContext): void {
  addSaltKeyOptions(command);
  useSaltUsage(command, context.stdout).allowExcessArguments();
  command.action(async (options: SaltKeyOptions) => {
    const { args } = command;
    if (options.deleteAll && args.length > 0) return printLine(context.stderr, deleteAllProblem);
    const complaint = findUsageError(options, args);
    if (complaint === undefined) {
      return runSaltKey(options, context).catch(async (error: unknown) => {
        context.setExitCode(await printSaltFailure(error, 'salt-key', context, options));
      });
    }
    await printLine(context.stderr, formatSaltUsageError('salt-key', complaint));
    context.setExitCode(exitCodes.usage);
  });
}

const deleteAllProblem = 'Error: Delete all takes no arguments. Use -d to delete specified keys';

/**
 * Returns Salt's text for a usage error, or `undefined`. An argument that belongs to no option is
 * an error here. Salt ignores it.
 */
function findUsageError(
  { list, keysize }: SaltKeyOptions,
  words: readonly string[],
): string | undefined {
  if (words.length > 0) return `no option accepts the argument ${words.map(escapeName).join(' ')}`;
  if (list && listedStates(list) === undefined) {
    return `'${list}' is not a valid argument to '--list'`;
  }
  const bits = Number(keysize);
  if (!/^\d+$/.test(keysize)) return `option --keysize: invalid integer value: '${keysize}'`;
  if (bits < keysizes.minimum) return `The minimum value for keysize is ${keysizes.minimum}`;
  if (bits > keysizes.maximum) return `The maximum value for keysize is ${keysizes.maximum}`;
  return undefined;
}

async function runSaltKey(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  if (options.genKeys || options.genSignature) return generateKeys(options, context);
  const { source, close } = await openSource(options, context);
  try {
    const choice = await chooseOutput(options, context);
    await runKeyAction(new SaltKeyActions(source, context, choice), options);
  } finally {
    await close();
  }
}

/**
 * Opens the keys of the master. With `--auth`, opens only the keys that the user may see and
 * change.
 */
async function openSource(
  options: SaltKeyOptions,
  context: CommandContext,
): Promise<{ readonly source: SaltKeySource; readonly close: () => Promise<void> }> {
  if (eauthOf(options) === undefined && options.makeToken !== true) {
    const { keys, close } = await context.openKeys(options.configDir);
    return { source: localKeySource(keys, options.configDir), close };
  }
  const { wheel, close } = await openCommandSession(context, options);
  return { source: userKeySource(wheel), close };
}

/**
 * Executes the requested action. As in Salt, only one action is executed, even if several are
 * requested. The first in this order is executed: list, print, accept, reject, delete, show
 * fingerprints. The default is to list all keys.
 */
async function runKeyAction(saltKey: SaltKeyActions, options: SaltKeyOptions): Promise<void> {
  const { list, accept, reject, finger } = options;
  if (list) return saltKey.list(listedStates(list) ?? []);
  if (options.listAll) return saltKey.list(allStates);
  if (options.print) return saltKey.print(options.print);
  if (options.printAll) return saltKey.print(undefined);
  const change = { include: includedStates(options), isConfirmed: options.yes === true };
  if (accept || options.acceptAll) {
    const include = change.include.filter((state) => state !== 'accepted');
    return saltKey.change({ ...change, operation: 'accept', match: accept || '*', include });
  }
  if (reject || options.rejectAll) {
    const include = change.include.filter((state) => state !== 'rejected');
    return saltKey.change({ ...change, operation: 'reject', match: reject || '*', include });
  }
  if (options.delete || options.deleteAll) {
    return saltKey.change({ ...change, operation: 'delete', match: options.delete || '*' });
  }
  if (finger) return saltKey.fingerprints(finger);
  return options.fingerAll ? saltKey.fingerprints(undefined) : saltKey.list(allStates);
}

const allStates: readonly KeyState[] = ['accepted', 'pending', 'rejected', 'denied'];

function includedStates(options: SaltKeyOptions): KeyState[] {
  const states: KeyState[] = [];
  if (options.includeAll || options.includeAccepted) states.push('accepted');
  if (options.includeAll || options.includeRejected) states.push('rejected');
  if (options.includeDenied) states.push('denied');
  return states;
}

async function generateKeys(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  const keysize = Number(options.keysize);
  // Creating a key pair requires no configuration.
  const commandDefaults = async (): Promise<CommandDefaults> => saltDefaults;
  const { output, sink } = await chooseOutput(options, { ...context, commandDefaults });
  const result = options.genKeys
    ? await generateSaltKeyPair(options.genKeysDir, options.genKeys, keysize)
    : await generateMasterSignature((await loadMasterConfig(options.configDir)).config, {
        ...options,
        keysize,
      });
  await sink.write(formatData({ return: result }, undefined, output));
}
