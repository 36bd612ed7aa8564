/** Operations on existing keys [salt key.py KeyCLI]. */

import type { KeyState } from '#master';
import type { WireValue } from '#minion-protocol';
import { textOrder } from '#template/python/comparison.ts';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { CommandContext } from '../context.ts';
import { CommandError } from '../errors.ts';
import type { OutputChoice } from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { escapeName, printLine } from '../terminal.ts';
import { invalidKeyText, type KeyOperation } from './key.ts';
import { formatKeys, type KeyPlaceName, type KeysByPlace } from './salt-key-output.ts';
import { keyPlaces, type ListedKey, type SaltKeySource } from './salt-key-source.ts';

/** Key states by the first letters of the argument of `--list`. */
const listArguments: readonly (readonly [string, readonly KeyState[]])[] = [
  ['acc', ['accepted']],
  ['pre', ['pending']],
  ['un', ['pending']],
  ['rej', ['rejected']],
  ['den', ['denied']],
  ['all', ['accepted', 'pending', 'rejected', 'denied']],
];

/** A request to change keys. */
interface KeyChangeRequest {
  readonly operation: KeyOperation;
  /** Globs that the ids of the keys must match, separated by commas. */
  readonly match: string;
  /**
   * Further key states. The operation changes matching keys in these states, in addition to those
   * in its usual states.
   */
  readonly include: readonly KeyState[];
  /** Whether to change the keys without asking for confirmation. */
  readonly isConfirmed: boolean;
}

/**
 * Returns the states for `--list <argument>`, or `undefined` if Salt does not accept the argument.
 */
export function listedStates(argument: string): readonly KeyState[] | undefined {
  return listArguments.find(([start]) => argument.startsWith(start))?.[1];
}

/** Lists and changes keys, and prints Salt's texts. */
export class SaltKeyActions {
  readonly #source: SaltKeySource;
  readonly #context: CommandContext;
  readonly #choice: OutputChoice;

  constructor(source: SaltKeySource, context: CommandContext, choice: OutputChoice) {
    this.#source = source;
    this.#context = context;
    this.#choice = choice;
  }

  async list(states: readonly KeyState[]): Promise<void> {
    const keys = await this.#source.list('ids');
    await this.#show(
      new Map(
        keyPlaces.flatMap(({ place, state }) => {
          const isListed = states.includes(state);
          return isListed ? [[place, idsIn(keys, state)] as const] : [];
        }),
      ),
    );
  }

  /**
   * Prints the matching public keys by state. If `match` is undefined, prints all keys, and also
   * the names of states without keys.
   */
  async print(match: string | undefined): Promise<void> {
    await this.#show(await this.#texts(match, 'publicKey'));
  }

  /**
   * Prints the fingerprints of all matching keys, including the master's own key files. If `match`
   * is undefined, all keys match.
   */
  async fingerprints(match: string | undefined): Promise<void> {
    const texts = await this.#texts(match, 'fingerprint');
    const matches = globMatcher(match ?? '*');
    const local = (await this.#source.local())
      .filter(({ name }) => matches(name))
      .sort((left, right) => textOrder(left.name, right.name));
    if (match === undefined || local.length > 0) {
      texts.set('local', new Map(local.map(({ name, fingerprint }) => [name, fingerprint])));
    }
    for (const [place, found] of texts) if (found.size === 0) texts.delete(place);
    await this.#show(texts);
  }

  /**
   * Prints the matching keys and asks for confirmation. Then changes the keys and prints their ids.
   */
  async change(request: KeyChangeRequest): Promise<void> {
    const { operation, match } = request;
    const matches = globMatcher(match);
    const keys = await this.#source.list('ids');
    const byPlace = new Map<KeyPlaceName, ListedKey[]>();
    for (const { place, state } of changeOrder(request)) {
      const found = sortById(keys.filter((key) => key.state === state && matches(key.id)));
      if (found.length > 0) byPlace.set(place, found);
    }
    if (byPlace.size === 0) return this.#printNoMatch(request);
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
    kind: 'publicKey' | 'fingerprint',
  ): Promise<Map<KeyPlaceName, ReadonlyMap<string, string>>> {
    const matches = globMatcher(match ?? '*');
    const keys = await this.#source.list(kind);
    const texts = new Map<KeyPlaceName, ReadonlyMap<string, string>>();
    for (const { place, state } of keyPlaces) {
      const found = sortById(keys.filter((key) => key.state === state && matches(key.id)));
      if (match === undefined || found.length > 0) {
        texts.set(place, new Map(found.map((key) => [key.id, key[kind]])));
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
      throw new CommandError('ERR_NOT_CONFIRMED', 'no confirmation was given; add -y');
    }
    return answer === '' ? !isDelete : answer.toLowerCase().startsWith('y');
  }

  /**
   * Changes the chosen keys, and returns the ids of the changed keys. As in Salt, an id can appear
   * several times. After a deletion, it appears once for each deleted key. After any other
   * operation, it appears once for each state in which the minion now has a key.
   */
  async #apply(operation: KeyOperation, chosen: readonly ListedKey[]): Promise<string[]> {
    const changed: ListedKey[] = [];
    for (const key of chosen) {
      if (await this.#source.change(operation, key)) changed.push(key);
      else await printLine(this.#context.stderr, invalidKeyText(key.id));
    }
    if (operation === 'delete') return changed.map(idOf);
    const after = changed.length === 0 ? [] : await this.#source.list('ids');
    const found = changed.flatMap(({ id }) => after.filter((key) => key.id === id));
    const order = [...new Set(found.map(({ state }) => state))];
    return order.flatMap((state) => found.filter((key) => key.state === state).map(idOf));
  }

  async #printNoMatch({ match, include }: KeyChangeRequest): Promise<void> {
    const states = ['accepted', 'rejected', 'denied'] as const;
    const named = ['unaccepted', ...states.filter((state) => include.includes(state))];
    const last = named.pop();
    const shown = named.length === 0 ? last : `${named.join(', ')} or ${last}`;
    const message = `The key glob '${escapeName(match)}' does not match any ${shown} keys.`;
    await printLine(this.#context.stdout, message);
  }
}

/**
 * Returns the states of the keys to change, in the order of the changes. A deletion changes keys in
 * all states. Other operations change pending keys first.
 */
function changeOrder({ operation, include }: KeyChangeRequest): typeof keyPlaces {
  if (operation === 'delete') return keyPlaces;
  const order: readonly KeyState[] = ['pending', 'accepted', 'rejected', 'denied'];
  return order.flatMap((state) => {
    const isMeant = state === 'pending' || include.includes(state);
    return isMeant ? keyPlaces.filter((each) => each.state === state) : [];
  });
}

function globMatcher(match: string): (id: string) => boolean {
  const globs = match.split(',').map((glob) => compileGlob(glob));
  return (id) => globs.some((matches) => matches(id));
}

function idsIn(keys: readonly ListedKey[], state: KeyState): string[] {
  return sortById(keys.filter((key) => key.state === state)).map(idOf);
}

/** Sorts keys by id [salt utils/data.py sorted_ignorecase]. */
function sortById(keys: readonly ListedKey[]): ListedKey[] {
  return keys.toSorted((left, right) => textOrder(left.id.toLowerCase(), right.id.toLowerCase()));
}

function idOf({ id }: ListedKey): string {
  return id;
}

function participle(operation: KeyOperation): string {
  return `${operation.replace(/e$/, '')}ed`;
}
