/** What `salt-key` does with keys that are there [salt key.py KeyCLI]. */
import type { KeyInfo, KeyState, KeysApi } from '../master/index.ts';
import { compileGlob, type WireValue } from '../minion-protocol/index.ts';
import type { CommandContext } from './context.ts';
import { CommandError } from './errors.ts';
import { changeOne, type KeyOperation } from './key-change.ts';
import { escapeName } from './output/escape.ts';
import { formatKeys, type KeyPlaceName, type KeysByPlace } from './output/keys.ts';
import { compareCodePoints } from './output/python.ts';
import { formatData } from './output/returns.ts';
import type { OutputChoice } from './output-options.ts';
import { printLine } from './print.ts';

/** Salt's directories, in the order in which it looks into them. */
const places: readonly { readonly place: KeyPlaceName; readonly state: KeyState }[] = [
  { place: 'minions', state: 'accepted' },
  { place: 'minions_pre', state: 'pending' },
  { place: 'minions_rejected', state: 'rejected' },
  { place: 'minions_denied', state: 'denied' },
];

/** Which states an argument of `--list` means, by how it begins. */
const listArguments: readonly (readonly [string, readonly KeyState[]])[] = [
  ['acc', ['accepted']],
  ['pre', ['pending']],
  ['un', ['pending']],
  ['rej', ['rejected']],
  ['den', ['denied']],
  ['all', ['accepted', 'pending', 'rejected', 'denied']],
];

/** What a change is asked for with. */
export interface KeyChangeRequest {
  readonly operation: KeyOperation;
  /** Globs with commas between them. */
  readonly match: string;
  /** States beyond the operation's own. */
  readonly include: readonly KeyState[];
  /** Whether nobody is to be asked. */
  readonly isConfirmed: boolean;
}

/** The states that `--list <argument>` means; `undefined`: it is none of Salt's. */
export function listedStates(argument: string): readonly KeyState[] | undefined {
  return listArguments.find(([start]) => argument.startsWith(start))?.[1];
}

/** Shows and changes keys in Salt's words. */
export class SaltKey {
  readonly #api: KeysApi;
  readonly #context: CommandContext;
  readonly #choice: OutputChoice;

  constructor(api: KeysApi, context: CommandContext, choice: OutputChoice) {
    this.#api = api;
    this.#context = context;
    this.#choice = choice;
  }

  async list(states: readonly KeyState[]): Promise<void> {
    const keys = await this.#api.list();
    await this.#show(
      new Map(
        places.flatMap(({ place, state }) => {
          const isListed = states.includes(state);
          return isListed ? [[place, idsIn(keys, state)] as const] : [];
        }),
      ),
    );
  }

  /** Public keys; `undefined`: all, also of places without any. */
  async print(match: string | undefined): Promise<void> {
    await this.#show(await this.#texts(match, ({ publicKey }) => publicKey));
  }

  /** Fingerprints, the master's own too. */
  async finger(match: string | undefined): Promise<void> {
    const texts = await this.#texts(match, ({ fingerprint }) => fingerprint);
    const matches = matcher(match ?? '*');
    const local = (await this.#api.local()).filter(({ name }) => matches(name));
    if (match === undefined || local.length > 0) {
      texts.set('local', new Map(local.map(({ name, fingerprint }) => [name, fingerprint])));
    }
    await this.#show(texts);
  }

  /** Shows what matches, asks, changes it, and names what was changed. */
  async change(request: KeyChangeRequest): Promise<void> {
    const { operation, match } = request;
    const matches = matcher(match);
    const keys = await this.#api.list();
    const byPlace = new Map<KeyPlaceName, KeyInfo[]>();
    for (const { place, state } of changeOrder(request)) {
      const found = inOrder(keys.filter((key) => key.state === state && matches(key.id)));
      if (found.length > 0) byPlace.set(place, found);
    }
    if (byPlace.size === 0) return this.#tellNoMatch(request);
    const { stdout } = this.#context;
    await printLine(stdout, `The following keys are going to be ${participle(operation)}:`);
    await this.#show(new Map([...byPlace].map(([place, found]) => [place, found.map(idOf)])));
    if (!request.isConfirmed && !(await this.#confirm(operation))) return;
    const chosen = [...byPlace.values()].flat();
    for (const id of await this.#apply(operation, chosen)) {
      await printLine(stdout, `Key for minion ${escapeName(id)} ${participle(operation)}.`);
    }
  }

  async #texts(
    match: string | undefined,
    textOf: (key: KeyInfo) => string,
  ): Promise<Map<KeyPlaceName, ReadonlyMap<string, string>>> {
    const matches = matcher(match ?? '*');
    const keys = await this.#api.list();
    const texts = new Map<KeyPlaceName, ReadonlyMap<string, string>>();
    for (const { place, state } of places) {
      const found = inOrder(keys.filter((key) => key.state === state && matches(key.id)));
      if (match === undefined || found.length > 0) {
        texts.set(place, new Map(found.map((key) => [key.id, textOf(key)])));
      }
    }
    return texts;
  }

  async #show(keys: KeysByPlace): Promise<void> {
    const { output, sink } = this.#choice;
    const isSaltsOwn = output.outputter === undefined || output.outputter === 'highstate';
    if (isSaltsOwn) return sink.write(formatKeys(keys, output.colors));
    const data = new Map<WireValue, WireValue>(
      [...keys].map(([place, ids]) => [place, ids instanceof Map ? new Map(ids) : [...ids]]),
    );
    await sink.write(formatData(data, undefined, output));
  }

  async #confirm(operation: KeyOperation): Promise<boolean> {
    const isDelete = operation === 'delete';
    this.#context.stdout.write(`Proceed? ${isDelete ? '[N/y]' : '[n/Y]'} `);
    const answer = await this.#context.input.readLine();
    if (answer === undefined) {
      throw new CommandError('ERR_NOT_CONFIRMED', 'nobody answered; add -y');
    }
    return answer === '' ? !isDelete : answer.toLowerCase().startsWith('y');
  }

  /** Salt names an id once for each place in which it is found afterwards. */
  async #apply(operation: KeyOperation, chosen: readonly KeyInfo[]): Promise<string[]> {
    const done = new Set<string>();
    for (const key of chosen) {
      if (operation === 'delete' && done.has(key.id)) continue;
      done.add(key.id);
      await changeOne(operation, this.#api, key, {});
    }
    if (operation === 'delete') return chosen.map(idOf);
    const after = await this.#api.list();
    const found = chosen.flatMap(({ id }) => after.filter((key) => key.id === id));
    const order = [...new Set(found.map(({ state }) => state))];
    return order.flatMap((state) => found.filter((key) => key.state === state).map(idOf));
  }

  async #tellNoMatch({ match, include }: KeyChangeRequest): Promise<void> {
    const states = ['accepted', 'rejected', 'denied'] as const;
    const named = ['unaccepted', ...states.filter((state) => include.includes(state))];
    const last = named.pop();
    const shown = named.length === 0 ? last : `${named.join(', ')} or ${last}`;
    const message = `The key glob '${escapeName(match)}' does not match any ${shown} keys.`;
    await printLine(this.#context.stdout, message);
  }
}

/** Deleting looks everywhere; others list what is pending first. */
function changeOrder({ operation, include }: KeyChangeRequest): typeof places {
  if (operation === 'delete') return places;
  const order: readonly KeyState[] = ['pending', 'accepted', 'rejected', 'denied'];
  return order.flatMap((state) => {
    const isMeant = state === 'pending' || include.includes(state);
    return isMeant ? places.filter((each) => each.state === state) : [];
  });
}

function matcher(match: string): (id: string) => boolean {
  const globs = match.split(',').map((glob) => compileGlob(glob));
  return (id) => globs.some((matches) => matches(id));
}

function idsIn(keys: readonly KeyInfo[], state: KeyState): string[] {
  return inOrder(keys.filter((key) => key.state === state)).map(idOf);
}

/** [salt utils/data.py sorted_ignorecase] */
function inOrder(keys: readonly KeyInfo[]): KeyInfo[] {
  return keys.toSorted((left, right) =>
    compareCodePoints(left.id.toLowerCase(), right.id.toLowerCase()),
  );
}

function idOf({ id }: KeyInfo): string {
  return id;
}

function participle(operation: KeyOperation): string {
  return `${operation.replace(/e$/, '')}ed`;
}
