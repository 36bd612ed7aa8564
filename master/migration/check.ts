/** The report on a salt-master's configuration: what would become of each thing that it uses. */
import path from 'node:path';
import { optionStatus } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';
import { surveyMasterConfig } from '../config/survey.ts';
import { surveyKeys } from '../keys/key-survey.ts';
import { adviceOf } from './advice.ts';
import { countKeys, keyFindings } from './keys.ts';
import { enginePrefixes, findListeners } from './listeners.ts';
import { neighbourFindings } from './neighbours.ts';
import { optionFindings } from './options.ts';
import { textsOf } from './plain-values.ts';
import { customModuleFindings, extensionFindings } from './python-code.ts';
import { planReactions, type ReactionPlan } from './reaction-plan.ts';
import { rendererFindings } from './renderers.ts';
import type { MigrationFinding, MigrationOutcome, MigrationReport } from './report.ts';
import { type Root, rootsOf } from './roots.ts';
import { planSignals } from './signal-plan.ts';
import { walkFiles } from './walk.ts';

const order: readonly MigrationOutcome[] = ['refused', 'ignored', 'honoured'];

/**
 * Looks at a configuration directory such as `/etc/salt`, and at the trees, modules and keys that
 * it names. Only reads. What cannot be read is a finding.
 */
export async function checkMigration(directory: string): Promise<MigrationReport> {
  const survey = await surveyMasterConfig(directory);
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

/** What no rule can be derived of is denied, and somebody misses it. */
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
    meaning: `No rule can be derived of a part of this reactor file: ${it.reason}.`,
    wayOut: `Write a rule for service reaction:${it.reference} that permits what it is to do.`,
  }));
}

async function treeFindings(settings: Settings): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const root of rootsOf(settings, 'file_roots')) {
    findings.push(...(await unnamedTree(root, 'file_roots')));
    findings.push(...(await rendererFindings(root, 'minions')));
    findings.push(...(await customModuleFindings(root.directory)));
  }
  for (const root of rootsOf(settings, 'pillar_roots')) {
    findings.push(...(await unnamedTree(root, 'pillar_roots')));
    findings.push(...(await rendererFindings(root, 'master')));
  }
  return findings;
}

/** A tree in the place of Salt's default is in use although no option says so. */
async function unnamedTree(root: Root, option: string): Promise<MigrationFinding[]> {
  const advice = adviceOf(option);
  if (root.file !== '' || advice === undefined || optionStatus(option) === 'served') return [];
  const { files } = await walkFiles(root.directory);
  if (files.length === 0) return [];
  return [{ kind: 'part', name: option, file: root.directory, line: 0, ...advice }];
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
