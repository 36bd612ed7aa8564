/** Checks valid reactions against targets, functions and the policy. */

import { compileRightTarget, isFunctionName, isKeywordText } from '#minion-protocol';
import { ConfigError } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';
import type { CallValue, Reaction } from './reaction.ts';
import { neededValues, schemaGuarantees } from './reaction-guarantees.ts';
import { targetedOf, valuesOf } from './reaction-values.ts';
import { originOf, rateProblem } from './reactions.ts';
import { isSettings, placeWithin, type Settings } from './settings.ts';

/**
 * Returns the mistakes in reactions whose form is valid, such as invalid targets and duplicate
 * names.
 */
export function reactionProblems(config: MasterConfig, own: Settings): readonly ConfigError[] {
  const names = new Set<string>();
  const written = own.get('reactions')?.value;
  return config.reactions.flatMap((reaction) => {
    const setting = isSettings(written) ? written.get(reaction.name) : undefined;
    const twice = names.has(reaction.name) ? ['another reaction has the same name'] : [];
    names.add(reaction.name);
    return [...twice, ...problemsOf(reaction, config)].map((problem) => {
      const field = problem.replace(/:.*/s, '').split('.');
      const { file, line } = setting ? placeWithin(setting, field) : originOf(reaction);
      return new ConfigError('ERR_OPTION_TYPE', { ...originOf(reaction), file, line }, problem);
    });
  });
}

function problemsOf(reaction: Reaction, config: MasterConfig): readonly string[] {
  const { do: action, from, rate } = reaction;
  const targeted = targetedOf(action);
  const target =
    typeof targeted?.target === 'string'
      ? targetProblem(targeted.target, targeted.tgtType ?? 'glob', config)
      : undefined;
  const keywords = valuesOf(action).filter(
    ([field, value]) => field.startsWith('do.run.args.') && isKeyword(value),
  );
  const subject = from === undefined ? undefined : targetProblem(from, 'compound', config);
  const found = [
    'run' in action && !isFunctionName(action.run.fun)
      ? 'do.run.fun: expected module.function'
      : undefined,
    target && `do.${targeted?.kind}.target: ${target}`,
    // A minion would convert this text to a keyword argument, but the rules were checked with a
    // positional one.
    ...keywords.map(([field]) => `${field}: pass an argument of the form name=value in \`kwargs\``),
    subject && `from: ${subject}`,
    rateProblem(rate),
    ...dataProblems(reaction, config),
  ];
  return found.filter((problem) => problem !== undefined);
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

/**
 * Returns a problem for each value that the reaction takes from the event's data, although no
 * schema guarantees that the data contains this value.
 */
function dataProblems(reaction: Reaction, config: MasterConfig): readonly string[] {
  const positional = valuesOf(reaction.do)
    .filter(([field, value]) => field.includes('.args.') && isSender(value))
    .map(([field]) => `${field}: pass a value from the event in \`kwargs\`, not in \`args\``);
  const needed = neededValues(reaction);
  const rules = rulesOf(config);
  const unmet = needed.filter((value) => schemaGuarantees(reaction, [value], rules).size === 0);
  const missing = unmet.map(({ field, path, mayBeText }) => {
    const types = mayBeText ? 'text, a number, or true or false' : 'a number, or true or false';
    return `${field}: no signal rule for this tag has a schema that requires ${['data', ...path].join('.')} to be ${types}`;
  });
  const isMet = needed.length === 0 || unmet.length > 0;
  if (isMet || schemaGuarantees(reaction, needed, rules).size > 0)
    return [...positional, ...missing];
  const all =
    'no single signal rule for this tag requires all values that the reaction takes from the event; require all of them in the schema of one rule';
  return [...positional, all];
}

function isKeyword(value: CallValue): boolean {
  if (typeof value === 'string') return isKeywordText(value);
  return typeof value === 'object' && value !== null && '__kwarg__' in value;
}

function isSender(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'from' in value && value.from === 'sender';
}
