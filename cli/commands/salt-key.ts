import type { Command } from 'commander';
import { type KeyState, loadMasterConfig } from '../../master/index.ts';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';
import { generatePair, generateSignature } from '../key-signature.ts';
import { formatData } from '../output/returns.ts';
import { chooseOutput } from '../output-options.ts';
import { printLine } from '../print.ts';
import { listedStates, SaltKey } from '../salt-key.ts';
import { addSaltKeyOptions, type SaltKeyOptions } from '../salt-key-options.ts';

/** Bits that Salt takes. */
const keysizes = { minimum: 2048, maximum: 32_768 };

/** `saltbridge salt-key`: takes the flags of Salt's own command and prints what it prints. */
export function addSaltKeyCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('salt-key')
    .description("see and change the minions' keys, with a running master or without");
  addSaltKeyOptions(command);
  command.action(async (options: SaltKeyOptions) => {
    const complaint = complain(options);
    if (complaint === undefined) return run(options, context);
    await printLine(context.stderr, `Usage: salt-key [options]\n\nsalt-key: error: ${complaint}`);
    context.setExitCode(exitCodes.usage);
  });
}

/** In Salt's words. */
function complain({ list, keysize }: SaltKeyOptions): string | undefined {
  if (list && listedStates(list) === undefined) {
    return `'${list}' is not a valid argument to '--list'`;
  }
  const bits = Number(keysize);
  if (!/^\d+$/.test(keysize)) return `option --keysize: invalid integer value: '${keysize}'`;
  if (bits < keysizes.minimum) return `The minimum value for keysize is ${keysizes.minimum}`;
  if (bits > keysizes.maximum) return `The maximum value for keysize is ${keysizes.maximum}`;
  return undefined;
}

async function run(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  if (options.genKeys || options.genSignature) return generate(options, context);
  const { keys, close } = await context.openKeys(options.configDir);
  try {
    const saltKey = new SaltKey(keys, context, await chooseOutput(options, context));
    await runOnKeys(saltKey, options);
  } finally {
    await close();
  }
}

/** When several things are asked for, Salt does the first in this order. */
async function runOnKeys(saltKey: SaltKey, options: SaltKeyOptions): Promise<void> {
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
  if (finger) return saltKey.finger(finger);
  return options.fingerAll ? saltKey.finger(undefined) : saltKey.list(allStates);
}

const allStates: readonly KeyState[] = ['accepted', 'pending', 'rejected', 'denied'];

function includedStates(options: SaltKeyOptions): KeyState[] {
  const states: KeyState[] = [];
  if (options.includeAll || options.includeAccepted) states.push('accepted');
  if (options.includeAll || options.includeRejected) states.push('rejected');
  if (options.includeDenied) states.push('denied');
  return states;
}

async function generate(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  const keysize = Number(options.keysize);
  const { output, sink } = await chooseOutput(options, context);
  const result = options.genKeys
    ? await generatePair(options.genKeysDir, options.genKeys, keysize)
    : await generateSignature((await loadMasterConfig(options.configDir)).config, {
        ...options,
        keysize,
      });
  await sink.write(formatData({ return: result }, undefined, output));
}
