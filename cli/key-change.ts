/** `saltbridge key accept|reject|delete`. */
import type { KeyChange, KeyInfo, KeyState, KeysApi } from '../master/index.ts';
import { compileGlob } from '../minion-protocol/index.ts';
import type { CommandContext } from './context.ts';
import { CommandError } from './errors.ts';
import { exitCodes } from './exit-codes.ts';
import { escapeName } from './output/escape.ts';
import { printJson, printLine } from './print.ts';

/** What can be done to a key. */
export type KeyOperation = 'accept' | 'reject' | 'delete';

/** The options of such a command, as commander names them. */
export interface KeyChangeOptions {
  readonly fingerprint?: string;
  readonly yes?: boolean;
  readonly state?: KeyState;
  readonly json?: boolean;
  readonly includeAccepted?: boolean;
  readonly includeDenied?: boolean;
  readonly includeRejected?: boolean;
}

const ownStates: Readonly<Record<KeyOperation, readonly KeyState[]>> = {
  accept: ['pending'],
  reject: ['pending'],
  delete: ['accepted', 'denied', 'pending', 'rejected'],
};

const participles: Readonly<Record<KeyOperation, string>> = {
  accept: 'accepted',
  reject: 'rejected',
  delete: 'deleted',
};

/** Changes the keys that match, after a person has seen them, or at once with `-y`. */
export async function changeKeys(
  operation: KeyOperation,
  api: KeysApi,
  glob: string,
  options: KeyChangeOptions,
  context: CommandContext,
): Promise<void> {
  const include = includedStates(options);
  const changes = options.yes
    ? await api[operation]({
        match: glob,
        include,
        ...givenState(options),
        ...givenFingerprint(options),
      })
    : await changeConfirmed(operation, api, glob, options, context);
  if (changes === undefined) {
    await printLine(context.stderr, 'Nothing was changed.');
    context.setExitCode(exitCodes.failure);
    return;
  }
  if (changes.length === 0) throw noMatch(statesOf(operation, options), glob);
  if (options.json) await printJson(context.stdout, changes);
  else {
    for (const { id } of changes) {
      await printLine(
        context.stdout,
        `Key for minion ${escapeName(id)} ${participles[operation]}.`,
      );
    }
  }
}

/**
 * Shows the keys and asks. Each is then named by id and fingerprint, so that nothing is changed
 * that was not on the list, whatever signs in meanwhile. `undefined`: the person said no.
 */
async function changeConfirmed(
  operation: KeyOperation,
  api: KeysApi,
  glob: string,
  options: KeyChangeOptions,
  context: CommandContext,
): Promise<KeyChange[] | undefined> {
  const { ask, stderr } = context;
  if (ask === undefined) {
    throw new CommandError('ERR_NOT_CONFIRMED', 'there is no terminal to ask on; add -y');
  }
  const matches = compileGlob(glob);
  const states = statesOf(operation, options);
  const keys = (await api.list()).filter(({ id, state }) => states.includes(state) && matches(id));
  if (keys.length === 0) throw noMatch(states, glob);
  await printLine(stderr, `The following keys are going to be ${participles[operation]}:`);
  for (const { id, state, fingerprint } of keys) {
    await printLine(stderr, `  ${escapeName(id)}  ${state}  ${fingerprint}`);
  }
  if (!/^y(es)?$/i.test((await ask('Proceed? [y/N] ')).trim())) return undefined;
  const changes: KeyChange[] = [];
  for (const key of keys) {
    const changed = await changeOne(operation, api, key, options);
    if (changed.length === 0) await tellOvertaken(key, context);
    changes.push(...changed);
  }
  return changes;
}

/** The key was changed or replaced while the person was thinking. */
async function tellOvertaken({ id }: KeyInfo, context: CommandContext): Promise<void> {
  const message = `saltbridge: the key of ${escapeName(id)} has changed meanwhile and was left`;
  await printLine(context.stderr, message);
  context.setExitCode(exitCodes.failure);
}

/** Changes one key, and only while it is the one that was shown. */
export function changeOne(
  operation: KeyOperation,
  api: KeysApi,
  { id, state, fingerprint }: KeyInfo,
  options: Pick<KeyChangeOptions, 'fingerprint'>,
): Promise<readonly KeyChange[]> {
  return api[operation]({ match: exactly(id), state, fingerprint, ...givenFingerprint(options) });
}

function givenFingerprint({ fingerprint }: KeyChangeOptions): { readonly fingerprint?: string } {
  return fingerprint === undefined ? {} : { fingerprint };
}

function givenState({ state }: KeyChangeOptions): { readonly state?: KeyState } {
  return state === undefined ? {} : { state };
}

function statesOf(operation: KeyOperation, options: KeyChangeOptions): readonly KeyState[] {
  const { state } = options;
  return state === undefined ? [...ownStates[operation], ...includedStates(options)] : [state];
}

function includedStates(options: KeyChangeOptions): KeyState[] {
  const states: KeyState[] = [];
  if (options.includeAccepted) states.push('accepted');
  if (options.includeDenied) states.push('denied');
  if (options.includeRejected) states.push('rejected');
  return states;
}

/** A glob that matches this id only. */
function exactly(id: string): string {
  return id.replace(/[*?[]/g, '[$&]');
}

function noMatch(states: readonly KeyState[], glob: string): CommandError {
  const names = states.join(', ');
  return new CommandError('ERR_KEY_NO_MATCH', `no key matches ${glob} (looked in: ${names})`);
}
