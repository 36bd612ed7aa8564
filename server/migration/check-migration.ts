/**
 * Migration report for the configuration of a salt-master. For each option and feature that the
 * configuration uses, it states the effect in saltbridge.
 */

import path from 'node:path';
import {
  checkMasterConfig,
  enginePrefixes,
  planSignals,
  type Settings,
  type SignalPlan,
  textsOf,
} from '#config';
import type { KeyState } from '#master';
import { withNamedFiles } from '../check-config.ts';
import { surveyKeys } from '../diagnostics/key-survey.ts';
import type { MigrationFinding, MigrationOutcome } from './finding.ts';
import { countKeys, keyFindings } from './key-findings.ts';
import { findListeners } from './listeners.ts';
import { neighbourFindings } from './neighbour-findings.ts';
import { optionFindings } from './option-findings.ts';
import { customModuleFindings, extensionFindings } from './python-code.ts';
import { planReactions, type ReactionPlan } from './reaction-plan.ts';
import { rendererFindings } from './renderer-findings.ts';
import { rootsOf } from './site-files.ts';
import { templateCallFindings } from './template-calls.ts';

const order: readonly MigrationOutcome[] = ['refused', 'ignored', 'honoured'];

/**
 * Examines a configuration directory such as `/etc/salt`, and the file trees, modules and keys that
 * it names. It does not change any file. Each unreadable file is reported as a finding.
 */
export async function checkMigration(directory: string): Promise<MigrationReport> {
  const survey = await withNamedFiles(await checkMasterConfig(directory));
  const { config, settings, files } = survey;
  const keys = await surveyKeys(config.pkiDir);
  const reactions = await planReactions(settings);
  const findings = [
    ...optionFindings(survey),
    ...reactionFindings(settings, reactions),
    ...(await treeFindings(settings)),
    ...(await codeFindings(settings, config.cachedir)),
    ...(await neighbourFindings(path.resolve(directory))),
    ...(await keyFindings(config, keys)),
  ];
  return {
    directory: path.resolve(directory),
    files,
    findings: order.flatMap((outcome) => findings.filter((it) => it.outcome === outcome)),
    counts: countOutcomes(findings),
    keys: countKeys(keys),
    signals: planSignals(await findListeners(settings), enginePrefixes(settings)),
    reactions,
  };
}

/**
 * Returns a finding for each reactor file whose rules cannot be derived completely. Without a rule,
 * saltbridge denies the actions of the file.
 */
function reactionFindings(
  settings: Settings,
  { underivable }: ReactionPlan,
): readonly MigrationFinding[] {
  const { file = '', line = 0 } = settings.get('reactor')?.origin ?? {};
  return underivable.map((it) => ({
    outcome: 'refused',
    kind: 'part',
    name: it.reference,
    file: it.file === '' ? file : it.file,
    line: it.file === '' ? line : 0,
    meaning: `For a part of this reactor file, no rule can be derived: ${it.reason}.`,
    remedy: `Add a rule for service reaction:${it.reference} that permits its actions.`,
  }));
}

async function treeFindings(settings: Settings): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const root of rootsOf(settings, 'file_roots')) {
    findings.push(...(await rendererFindings(root, 'minions')));
    findings.push(...(await customModuleFindings(root.directory)));
  }
  for (const root of rootsOf(settings, 'pillar_roots')) {
    findings.push(...(await rendererFindings(root, 'master')));
  }
  return [...findings, ...(await templateCallFindings(settings))];
}

async function codeFindings(settings: Settings, cachedir: string): Promise<MigrationFinding[]> {
  const named = textsOf(settings.get('extension_modules')?.value);
  const directories = [
    ...(named.length > 0 ? named : [path.join(cachedir, 'extmods')]),
    ...textsOf(settings.get('module_dirs')?.value),
  ];
  const found = await Promise.all(directories.map((directory) => extensionFindings(directory)));
  return found.flat();
}

function countOutcomes(findings: readonly MigrationFinding[]): Record<MigrationOutcome, number> {
  const counts = { honoured: 0, ignored: 0, refused: 0 };
  for (const { outcome } of findings) counts[outcome]++;
  return counts;
}

/** Report of {@link checkMigration}. */
export interface MigrationReport {
  /** Configuration directory. */
  readonly directory: string;
  /** Configuration files that were read, in reading order. */
  readonly files: readonly string[];
  /**
   * Findings, ordered by outcome: refused, ignored, honoured. Findings with the same outcome are in
   * the order in which they were found.
   */
  readonly findings: readonly MigrationFinding[];
  readonly counts: Readonly<Record<MigrationOutcome, number>>;
  readonly keys: Readonly<Record<KeyState, number>>;
  /**
   * Tags of the events for which reactors and other listeners of the checked salt-master wait.
   * Rules must permit minions to emit these events.
   */
  readonly signals: SignalPlan;
  /** Calls that rules must permit for the reactor files of the checked salt-master. */
  readonly reactions: ReactionPlan;
}
