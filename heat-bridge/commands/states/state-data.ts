/**
 * Salt states as data ("high data"), which a minion applies without a template. Untrusted values
 * are arguments of states only, never keys, requisites or ids.
 */

import { findInterpretedText } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import { configError, configLimits } from './state-config.ts';

/** States by id, in Salt's form. */
type StateData = Readonly<Record<string, Readonly<Record<string, JsonValue>>>>;

/** States to apply, with labels for users. */
export interface CompiledStates {
  readonly states: StateData;
  /** Labels by id of the state. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Reference to a state in a requisite. */
export interface StateReference {
  readonly module: string;
  readonly id: string;
}

export interface StateCall {
  /** State function, for example `file.managed`. */
  readonly fun: string;
  readonly args: Readonly<Record<string, JsonValue>>;
  /** States after whose changes the service is restarted. */
  readonly watch?: readonly StateReference[];
  /** Label for users. */
  readonly label: string;
}

/** Collects states in order. */
export class StateBuilder {
  readonly #states: Record<string, Record<string, JsonValue>> = {};
  readonly #labels: Record<string, string> = {};
  #count = 0;
  #bytes = 0;

  /**
   * Adds a state.
   * @returns the reference for requisites of later states
   */
  add({ fun, args, watch = [], label }: StateCall): StateReference {
    const [module = '', name = ''] = fun.split('.');
    this.#count += 1;
    if (this.#count > configLimits.states) {
      throw configError(label, `more than ${configLimits.states} states`);
    }
    // Salt matches ids in requisites as globs, so they contain no untrusted text.
    const id = `saltbridge-${String(this.#count).padStart(4, '0')}`;
    const interpreted = findInterpretedText(args, 'argument');
    if (interpreted !== undefined) throw configError(label, `text ${interpreted.expected}`);
    this.#states[id] = {
      [module]: [
        name,
        ...Object.entries(args).map(([key, value]) => ({ [key]: value })),
        ...(watch.length === 0 ? [] : [{ watch: watch.map((it) => ({ [it.module]: it.id })) }]),
        { order: this.#count },
        // Stop after the first failed state.
        { failhard: true },
      ],
      __sls__: 'saltbridge',
      __env__: 'base',
    };
    this.#labels[id] = label;
    this.#bytes += JSON.stringify([args, watch, label]).length;
    if (this.#bytes > configLimits.bytes) {
      throw configError(label, `the states exceed ${configLimits.bytes} bytes in total`);
    }
    return { module, id };
  }

  build(): CompiledStates {
    return { states: this.#states, labels: this.#labels };
  }
}
