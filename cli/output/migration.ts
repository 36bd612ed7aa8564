/** The migration report for people. */
import {
  type MigrationFinding,
  type MigrationOutcome,
  type MigrationReport,
  policyText,
} from '../../master/index.ts';
import { escapeLines, escapeName } from './escape.ts';

const headings: Readonly<Record<MigrationOutcome, string>> = {
  refused: 'Refused: somebody would miss it, or the master does not start',
  ignored: 'Ignored: without effect here',
  honoured: 'Honoured: works as it is',
};

/** @param policyFile where the policy was written; default: it is a section of the text */
export function migrationText(report: MigrationReport, policyFile?: string): string {
  const sections = (['refused', 'ignored', 'honoured'] as const).flatMap((outcome) =>
    sectionOf(
      outcome,
      report.findings.filter((it) => it.outcome === outcome),
    ),
  );
  const policy =
    policyFile === undefined
      ? ['Least policy, one file for master.d', '', escapeLines(policyText(report))]
      : [`The least policy is in ${escapeName(policyFile)}.`];
  return [...sections, ...policy, '', summary(report)].join('\n');
}

function sectionOf(outcome: MigrationOutcome, findings: readonly MigrationFinding[]): string[] {
  if (findings.length === 0) return [];
  return [headings[outcome], '', ...findings.flatMap(linesOf), ''];
}

function linesOf({ name, file, line, meaning, wayOut }: MigrationFinding): string[] {
  const place = line === 0 ? file : `${file}:${line}`;
  return [
    `  ${escapeName(name)} (${escapeName(place)})`,
    `    ${escapeName(meaning)}`,
    ...(wayOut === '' ? [] : [`    -> ${escapeName(wayOut)}`]),
  ];
}

function summary({ counts, directory }: MigrationReport): string {
  const parts = Object.entries(counts).map(([outcome, count]) => `${count} ${outcome}`);
  return `${escapeName(directory)}: ${parts.join(', ')}. Nothing was changed.`;
}
