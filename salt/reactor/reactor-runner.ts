/** The `reactor` runner, which changes the option `reactor` in memory [salt/runners/reactor.py]. */

import { type LiveConfig, type ReactorEntry, readReactorEntries } from '#config';
import { MasterError } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  type FunctionTable,
  masterFunction,
  requireLocalCaller,
} from '../functions/define-function.ts';
import { ignored, required, target, text } from '../functions/parameters.ts';

/** Maximum number of reactors that were added with `reactor.add` and exist at the same time. */
const maxAdded = 1000;
/** Maximum number of reactor files that `reactor.add` accepts for one tag. */
const maxFiles = 100;
/** Maximum length of the tag and of each file name in a call of `reactor.add`, in characters. */
const maxText = 4096;

/**
 * The entries of the option `reactor`, including those that the runner has added or deleted since
 * the start. These changes survive a reload of the configuration.
 */
export class ReactorEntries {
  readonly #config: Pick<LiveConfig, 'current'>;
  readonly #added = new Map<string, ReactorEntry>();
  readonly #deleted = new Set<string>();
  /** Function that is called when the entries have changed. */
  onChange: () => void = () => {};

  constructor(config: Pick<LiveConfig, 'current'>) {
    this.#config = config;
  }

  /**
   * Returns the configured entries without those that the runner has deleted, and with those that
   * it has added.
   */
  over(configured: readonly ReactorEntry[]): readonly ReactorEntry[] {
    const left = configured.filter(({ tag }) => !this.#deleted.has(tag));
    return [...left, ...this.#added.values()];
  }

  get current(): readonly ReactorEntry[] {
    return this.over(this.#config.current.reactor);
  }

  /**
   * Adds reactor files for a tag, unless the tag already has files.
   * @returns whether the files were added
   * @throws MasterError ERR_ARGS
   */
  add(tag: string, sls: string | readonly string[]): boolean {
    if (this.#has(tag)) return false;
    const files = typeof sls === 'string' ? [sls] : sls;
    if (this.#added.size >= maxAdded || files.length > maxFiles) {
      const bounds = `${maxAdded} reactors of ${maxFiles} files`;
      throw new MasterError('ERR_ARGS', `reactor.add accepts at most ${bounds}`);
    }
    const isShort = [tag, ...files].every(({ length }) => length <= maxText);
    const [entry] = (isShort ? readReactorEntries([{ tag, sls: files }]) : undefined) ?? [];
    if (entry === undefined || files.length === 0) {
      const expected = 'requires a tag glob and files (salt://… or absolute paths)';
      throw new MasterError('ERR_ARGS', `reactor.add ${expected}`);
    }
    this.#added.set(tag, entry);
    this.onChange();
    return true;
  }

  /**
   * Deletes an entry.
   * @returns whether the tag had an entry
   */
  delete(tag: string): boolean {
    if (!this.#has(tag)) return false;
    if (!this.#added.delete(tag)) this.#deleted.add(tag);
    this.onChange();
    return true;
  }

  #has(tag: string): boolean {
    return this.current.some((entry) => entry.tag === tag);
  }
}

export function reactorRunner(entries: ReactorEntries): FunctionTable {
  const result = (status: boolean, comment: string): WireMap => ({ status, comment });
  return {
    'reactor.list': masterFunction({
      summary: 'Lists the active reactors: those of the option reactor and added ones.',
      parameters: { saltenv: ignored, test: ignored },
      call: () => entries.current.map(({ tag, sls }): WireValue => ({ [tag]: [...sls] })),
    }),
    'reactor.add': masterFunction({
      summary: 'Adds a reactor, with a tag glob and files, until the master stops.',
      parameters: {
        event: required(text),
        reactors: required(target),
        saltenv: ignored,
        test: ignored,
      },
      call: ({ event, reactors }, context) => {
        // A user with access to this function could trigger all calls of reactor files by any
        // event.
        requireLocalCaller(context);
        return entries.add(event, reactors)
          ? result(true, 'Reactor added.')
          : result(false, 'Reactor already exists.');
      },
    }),
    'reactor.delete': masterFunction({
      summary: 'Deletes the reactor of a tag until the master stops.',
      parameters: { event: required(text), saltenv: ignored, test: ignored },
      call: ({ event }, context) => {
        requireLocalCaller(context);
        return entries.delete(event)
          ? result(true, 'Reactor deleted.')
          : result(false, 'Reactor does not exists.');
      },
    }),
  };
}
