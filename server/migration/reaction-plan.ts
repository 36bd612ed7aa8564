/**
 * Derives the smallest set of rules that permits all calls in the reactor files of a salt-master.
 */

import path from 'node:path';
import { expandGlob, pairsOf, type Settings, textsOf } from '#config';
import { loadReactorReader } from '#salt';
import { callsIn, type ReactorCall } from './reactor-file-calls.ts';
import { readStart, rootsOf } from './site-files.ts';

/** Converts the nodegroups of the option `nodegroups` to texts of compound targets, by name. */
function nodegroupTexts(
  pairs: readonly (readonly [string, unknown])[],
): ReadonlyMap<string, string> {
  return new Map(pairs.map(([name, value]) => [name, [value].flat().join(' ')]));
}

/** A rule that permits a reactor file to perform an action. */
export interface PlannedReactionRule {
  /**
   * Name of the reactor file in the option `reactor`. The rule has the subject
   * `service: reaction:<reference>`.
   */
  readonly reference: string;
  readonly action: ReactorCall['action'];
  readonly functions: readonly string[];
  /**
   * Compound target that contains the minions to which the file may publish jobs. Only for the
   * action `publish`.
   */
  readonly within?: string;
}

/** Call in a reactor file, or whole reactor file, from which no rule can be derived. */
export interface UnderivableReaction {
  readonly reference: string;
  /** Path of the file, or '' if the file does not exist. */
  readonly file: string;
  readonly reason: string;
}

/** Rules for the calls of reactor files, and the calls from which no rule can be derived. */
export interface ReactionPlan {
  readonly rules: readonly PlannedReactionRule[];
  readonly underivable: readonly UnderivableReaction[];
}

const maxFileBytes = 262_144;

/**
 * Derives rules for all files in the option `reactor`. Files that cannot be read are listed in
 * `underivable`.
 */
export async function planReactions(settings: Settings): Promise<ReactionPlan> {
  const reader = await loadReactorReader();
  const renderer = textsOf(settings.get('renderer')?.value)[0] ?? 'jinja|yaml';
  const nodegroups = nodegroupTexts(pairsOf(settings.get('nodegroups')?.value));
  const rules: PlannedReactionRule[] = [];
  const underivable: UnderivableReaction[] = [];
  for (const reference of referencesIn(settings)) {
    const files = await filesOf(reference, settings);
    if (files.length === 0) {
      underivable.push({ reference, file: '', reason: 'the file does not exist' });
    }
    const calls: ReactorCall[] = [];
    for (const file of files) {
      const text = await readStart(file, maxFileBytes);
      const found =
        text === undefined || text.length >= maxFileBytes
          ? { calls: [], underivable: ['it cannot be read, or is too large'] }
          : callsIn(text, renderer, nodegroups, reader);
      calls.push(...found.calls);
      underivable.push(...found.underivable.map((reason) => ({ reference, file, reason })));
    }
    rules.push(...rulesFor(reference, calls));
  }
  return { rules, underivable };
}

/** Returns the files, or patterns of files, in the option `reactor`, without duplicates. */
function referencesIn(settings: Settings): ReadonlySet<string> {
  const { value } = settings.get('reactor') ?? {};
  const entries = Array.isArray(value) ? value.flatMap((item) => pairsOf(item)) : [];
  return new Set(entries.flatMap(([, files]) => textsOf(files)));
}

async function filesOf(reference: string, settings: Settings): Promise<readonly string[]> {
  if (!reference.startsWith('salt://')) {
    return path.isAbsolute(reference) ? expandGlob(reference) : [];
  }
  const [place = ''] = reference.slice('salt://'.length).split('?');
  for (const { directory, saltenv } of rootsOf(settings, 'file_roots')) {
    const file = path.join(directory, place);
    const isInside = file.startsWith(`${path.resolve(directory)}/`);
    const isThere = isInside && saltenv === 'base' && (await readStart(file, 1)) !== undefined;
    if (isThere) return [file];
  }
  return [];
}

/** Returns the rules for a reactor file, one for each combination of action and target. */
function rulesFor(reference: string, calls: readonly ReactorCall[]): PlannedReactionRule[] {
  const rules = new Map<string, PlannedReactionRule>();
  for (const { action, fun, within } of calls) {
    const key = `${action} ${within ?? ''}`;
    const functions = [...new Set([...(rules.get(key)?.functions ?? []), fun])].sort();
    const target = within === undefined ? {} : { within };
    rules.set(key, { reference, action, functions, ...target });
  }
  return [...rules.values()];
}
