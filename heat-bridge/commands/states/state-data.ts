/**
 * Salt states as data ("high data"), which a minion applies without rendering a template. Untrusted
 * text is only passed as arguments of states, never as keys, requisites or ids.
 */

import { findInterpretedText } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import { configError, configLimits } from './state-config.ts';

/** States by id, as Salt represents them. */
type StateData = Readonly<Record<string, Readonly<Record<string, JsonValue>>>>;

/** States to apply, with labels for error messages. */
export interface CompiledStates {
  readonly states: StateData;
  /** Names of the states in error messages, by state id. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Reference to a state, for requisites of other states. */
export interface StateReference {
  readonly module: string;
  readonly id: string;
}

export interface StateCall {
  /** State function, for example `file.managed`. */
  readonly fun: string;
  readonly args: Readonly<Record<string, JsonValue>>;
  /** States to watch. After a change of one of them, the service is restarted. */
  readonly watch?: readonly StateReference[];
  /** Label for error messages. */
  readonly label: string;
}

/** Builds a map of states that are applied in the order in which they were added. */
export class StateBuilder {
  readonly #states: Record<string, Record<string, JsonValue>> = {};
  readonly #labels: Record<string, string> = {};
  #count = 0;
  #bytes = 0;

  /**
   * Adds a state.
   * @returns a reference, with which later states can watch it
   */
  add({ fun, args, watch = [], label }: StateCall): StateReference {
    const [module = '', name = ''] = fun.split('.');
    this.#count += 1;
    if (this.#count > configLimits.states) {
      throw configError(
        label,
        `the configuration compiles to more than ${configLimits.states} Salt states`,
      );
    }
    // Use a number as the id: Salt matches ids in requisites as globs, so they must not contain
    // untrusted text.
    const id = `saltbridge-${String(this.#count).padStart(4, '0')}`;
    const interpreted = findInterpretedText(args, 'argument');
    if (interpreted !== undefined) throw configError(label, `text ${interpreted.expected}`);
    this.#states[id] = {
      [module]: [
        name,
        ...Object.entries(args).map(([key, value]) => ({ [key]: value })),
        ...(watch.length === 0 ? [] : [{ watch: watch.map((it) => ({ [it.module]: it.id })) }]),
        { order: this.#count },
        // Do not apply further states after the first failed one.
        { failhard: true },
      ],
      __sls__: 'saltbridge',
      __env__: 'base',
    };
    this.#labels[id] = label;
    this.#bytes += JSON.stringify([args, watch, label]).length;
    if (this.#bytes > configLimits.bytes) {
      throw configError(
        label,
        `the Salt states of this configuration have more than ${configLimits.bytes} bytes in total`,
      );
    }
    return { module, id };
  }

  build(): CompiledStates {
    return { states: this.#states, labels: this.#labels };
  }
}
