/**
 * States of Salt as data ("high data"): what a minion applies without any template. Everything in it
 * that somebody else wrote is an argument of a state, never a key, a requisite or an id.
 */

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

/** Salt calls functions that are named in a text behind this [salt.state State.format_slots]. */
const slotMark = '__slot__:';

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
    for (const value of Object.values(args)) requireNoSlot(value, label);
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

function requireNoSlot(value: JsonValue, place: string): void {
  if (typeof value === 'string') {
    if (isSlot(value)) throw configError(place, `text must not begin with ${slotMark}`);
  } else if (typeof value === 'object' && value !== null) {
    for (const one of Object.values(value)) requireNoSlot(one, place);
  }
}

/** Whether Salt would take a text for a call. */
export function isSlot(text: string): boolean {
  return text.startsWith(slotMark);
}
