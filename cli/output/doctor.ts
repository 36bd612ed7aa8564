/** The doctor's report for people. */
import type { DoctorFinding, DoctorReport } from '../../master/index.ts';
import { escapeName } from './escape.ts';

export function doctorText({ findings, isRunning, versions }: DoctorReport): string {
  const known = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    ...findings.flatMap(linesOf),
    `${known.join(', ')}; ${isRunning ? 'a master runs' : 'no master runs'}.`,
    findings.length === 0 ? 'Nothing is wrong.' : countOf(findings),
  ].join('\n');
}

function linesOf({ severity, code, subject, problem, remedy }: DoctorFinding): string[] {
  return [
    `${severity} ${code}: ${escapeName(subject)}`,
    `  ${escapeName(problem)}`,
    `  -> ${escapeName(remedy)}`,
    '',
  ];
}

function countOf(findings: readonly DoctorFinding[]): string {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return `${errors} errors, ${findings.length - errors} warnings.`;
}
