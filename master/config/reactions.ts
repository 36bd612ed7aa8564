/** `saltbridge: reactions:`, and whether all of them can be used, before anything takes effect. */

import { PolicyError, parseRate } from '../../acl/index.ts';
import { isKeywordText } from '../functions/arguments.ts';
import { isFunctionName } from '../jobs/job-arguments.ts';
import type { CallValue, Reaction } from '../api/reactions.ts';
import { neededValues, parseReaction, schemaGuarantees, targetedOf, valuesOf, withProgramNames } from '../reactor/reaction.ts';
import { compileRightTarget } from '../jobs/targets.ts';
import { ConfigError, type OptionKind, type OptionOrigin, isSettings, toPlain } from './option-kinds.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';

const key = 'saltbridge:reactions';

/** A map of reactions by their names. */
export const reactions: OptionKind<readonly Reaction[]> = {
  expected: 'a map of reactions by their names, each with on and do',
  isPath: false,
  parse: (value) => {
    if (isSettings(value)) {
      return [...value].map(([name, { value: found, origin }]) =>
        parseReaction(name, withProgramNames(toPlain(found)), origin),
      );
    }
    if (!Array.isArray(value)) return undefined;
    const list = value.map(reactionOfProgram).filter((it) => it !== undefined);
    return list.length === value.length ? list : undefined;
  },
};

/** As `reaction` makes them. */
function reactionOfProgram(value: unknown): Reaction | undefined {
  if (typeof value !== 'object' || value === null || !('name' in value)) return undefined;
  const { name, ...options } = value;
  return parseReaction(String(name), options, originOf({ name: String(name) }));
}

/** @throws ConfigError ERR_OPTION_TYPE with the place of the reaction that cannot be used */
export function checkReactions(config: MasterConfig): void {
  const names = new Set<string>();
  for (const reaction of config.reactions) {
    const problem = names.has(reaction.name)
      ? 'there is another reaction of this name'
      : problemOf(reaction, config);
    if (problem !== undefined)
      throw new ConfigError('ERR_OPTION_TYPE', originOf(reaction), problem);
    names.add(reaction.name);
  }
}

function problemOf(reaction: Reaction, config: MasterConfig): string | undefined {
  const { do: action, from, rate } = reaction;
  if ('run' in action && !isFunctionName(action.run.fun)) {
    return 'do.run.fun: expected module.function';
  }
  const targeted = targetedOf(action);
  if (typeof targeted?.target === 'string') {
    const problem = targetProblem(targeted.target, targeted.tgtType ?? 'glob', config);
    if (problem !== undefined) return `do.${targeted.kind}.target: ${problem}`;
  }
  const keyword = valuesOf(action).find(
    ([field, value]) => field.startsWith('do.run.args.') && isKeyword(value),
  );
  // A minion would make a keyword of it, which no rule has looked at as such.
  if (keyword !== undefined) return `${keyword[0]}: name=value goes by name, in kwargs`;
  const problem = from === undefined ? undefined : targetProblem(from, 'compound', config);
  if (problem !== undefined) return `from: ${problem}`;
  return rateProblem(rate) ?? dataProblem(reaction, config);
}

function targetProblem(tgt: string, tgtType: string, config: MasterConfig): string | undefined {
  try {
    compileRightTarget({ tgt, tgtType }, config.nodegroups);
    return undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

function rateProblem(rate: string): string | undefined {
  try {
    parseRate(rate, '');
    return undefined;
  } catch (error) {
    if (error instanceof PolicyError) return `rate: ${error.problem}`;
    throw error;
  }
}

/** Data that no schema has looked at leads nowhere. */
function dataProblem(reaction: Reaction, config: MasterConfig): string | undefined {
  const positional = valuesOf(reaction.do).find(
    ([field, value]) => field.includes('.args.') && isSender(value),
  );
  if (positional !== undefined) return `${positional[0]}: text of an event goes by name, in kwargs`;
  const needed = neededValues(reaction);
  const rules = rulesOf(config);
  const unmet = needed.find((value) => schemaGuarantees(reaction, [value], rules).size === 0);
  if (unmet !== undefined) {
    const path = ['data', ...unmet.path].join('.');
    const types = unmet.mayBeText
      ? 'text, a number, or true or false'
      : 'a number, or true or false';
    return `${unmet.field}: no signal rule for this tag has a schema that requires ${path}, as ${types}`;
  }
  if (needed.length === 0 || schemaGuarantees(reaction, needed, rules).size > 0) return undefined;
  return 'no signal rule for this tag has a schema that requires all that is taken from the event';
}

function isKeyword(value: CallValue): boolean {
  if (typeof value === 'string') return isKeywordText(value);
  return typeof value === 'object' && value !== null && '__kwarg__' in value;
}

function isSender(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'from' in value && value.from === 'sender';
}

function originOf({ name, origin }: Pick<Reaction, 'name' | 'origin'>): OptionOrigin {
  return { file: 'options', line: 0, ...origin, key: `${key}:${name}` };
}
