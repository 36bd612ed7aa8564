/** Stands for whatever is set: no value of the option is the one that is in force anyway. */
export const anyValue: unique symbol = Symbol('any value');

/** Options of Salt's master with one and the same advice. */
export interface AdviceGroup {
  /** What to do instead, or why nothing is lost. */
  readonly advice: string;
  /**
   * The options by name. A value that is Salt's default asks for nothing that is not so here, and
   * needs no advice; `anyValue` always does.
   */
  readonly options: Readonly<Record<string, unknown>>;
}
