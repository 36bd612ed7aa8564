/**
 * States of Salt as data ("high data"): what a minion applies without any template. Everything in it
 * that somebody else wrote is an argument of a state, never a key, a requisite or an id.
 */

import { findInterpretedText } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import { configError, configLimits } from './state-config.ts';

/** States by id, in Salt's own form. */
type StateData = Readonly<Record<string, Readonly<Record<string, JsonValue>>>>;

/** States that are to be applied, and what they are for people. */
export interface CompiledStates {
  readonly states: StateData;
  /** By id of the state. */
  readonly labels: Readonly<Record<string, string>>;
}

/** A state of one module, as a requisite names it. */
export interface StateReference {
  readonly module: string;
  readonly id: string;
}

export interface StateCall {
  /** `file.managed` and so on. */
  readonly fun: string;
  readonly args: Readonly<Record<string, JsonValue>>;
  /** The service is restarted where one of these has changed. */
  readonly watch?: readonly StateReference[];
  /** For people. */
  readonly label: string;
}

/** Collects states in their order. */
export class StateBuilder {
  readonly #states: Record<string, Record<string, JsonValue>> = {};
  readonly #labels: Record<string, string> = {};
  #count = 0;
  #bytes = 0;

  /** @returns what requisites of later states name it by */
  add({ fun, args, watch = [], label }: StateCall): StateReference {
    const [module = '', name = ''] = fun.split('.');
    this.#count += 1;
    if (this.#count > configLimits.states) {
      throw configError(label, `more than ${configLimits.states} states`);
    }
    // Salt reads ids in requisites as globs, so nothing of anybody's is in them.
    const id = `saltbridge-${String(this.#count).padStart(4, '0')}`;
    const interpreted = findInterpretedText(args, 'argument');
    if (interpreted !== undefined) throw configError(label, `text ${interpreted.expected}`);
    this.#states[id] = {
      [module]: [
        name,
        ...Object.entries(args).map(([key, value]) => ({ [key]: value })),
        ...(watch.length === 0 ? [] : [{ watch: watch.map((it) => ({ [it.module]: it.id })) }]),
        { order: this.#count },
        // What follows a state that failed is not applied.
        { failhard: true },
      ],
      __sls__: 'saltbridge',
      __env__: 'base',
    };
    this.#labels[id] = label;
    this.#bytes += JSON.stringify([args, watch, label]).length;
    if (this.#bytes > configLimits.bytes) {
      throw configError(label, `more than ${configLimits.bytes} bytes in all`);
    }
    return { module, id };
  }

  build(): CompiledStates {
    return { states: this.#states, labels: this.#labels };
  }
}
