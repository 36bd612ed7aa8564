import { placeOf, withoutPlace } from '../config/place.ts';
import type { ConfigSurvey } from '../config/survey.ts';
import type { ConfigWarning } from '../config/warnings.ts';
import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';

const maxSocketPathBytes = 107;

/** What the configuration says, and what it is risky to say. */
export async function checkConfig({ config: survey }: Patient): Promise<DoctorFinding[]> {
  const { config, problems, warnings } = survey;
  const findings: DoctorFinding[] = problems.map((problem) => ({
    code: 'config-problem',
    severity: 'error',
    subject: placeOf(problem),
    problem: `The master does not start: ${withoutPlace(problem)}.`,
    remedy: 'Correct it; docs/errors.md says more of its code.',
  }));
  for (const warning of warnings) {
    findings.push({
      code: 'config-warning',
      severity: 'warning',
      subject: placeOf(warning),
      problem: `${withoutPlace(warning)}.`,
      remedy: remedyOf(warning.kind),
    });
  }
  if (Buffer.byteLength(config.socket) > maxSocketPathBytes) {
    findings.push({
      code: 'socket-path',
      severity: 'error',
      subject: config.socket,
      problem: `The path of a socket has at most ${maxSocketPathBytes} bytes.`,
      remedy: 'Set sock_dir, or socket under saltbridge:, to a shorter path.',
    });
  }
  return [...findings, ...riskyModes(survey)];
}

function riskyModes({ config, settings }: ConfigSurvey): DoctorFinding[] {
  const findings: DoctorFinding[] = [];
  if (settings.get('open_mode')?.value === true) {
    findings.push({
      code: 'open-mode',
      severity: 'error',
      subject: 'open_mode',
      problem: 'Anybody may take the place of any minion.',
      remedy: 'Remove open_mode as soon as keys have been exchanged.',
    });
  }
  if (config.autoAccept) {
    findings.push({
      code: 'auto-accept',
      severity: 'warning',
      subject: 'auto_accept',
      problem: 'Every machine that reaches the port becomes a minion.',
      remedy: 'Accept keys by hand, or by autosign_file or autosign_grains_dir.',
    });
  }
  return findings;
}

function remedyOf(kind: ConfigWarning['kind']): string {
  if (kind === 'narrowed' || kind === 'rights') return 'Write each expression as it is meant.';
  if (kind === 'bounded') return 'Set the two options so that one fits into the other.';
  return 'Remove what has no effect; saltbridge migrate check knows ways out.';
}
