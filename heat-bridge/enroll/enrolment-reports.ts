/** Reports changes of enrolments as events, audit records and log lines. */

import type { Logger } from 'pino';
import type { AuditBursts, AuditEntry, ExtensionHost } from '#master';
import type { EnrolmentEvent } from './enrolment-transitions.ts';

/**
 * Creates a function that reports an event of an enrolment: it emits the event
 * `saltbridge/bridge/enroll/<what>`, and writes an audit record `enroll.<what>` and a log line. Any
 * machine can cause the event `alarm`. Therefore repeated alarms of an enrolment within a minute
 * are only counted in the audit log.
 */
export function createEnrolmentEmitter(
  { audit, fire }: Pick<ExtensionHost, 'audit' | 'fire'>,
  bursts: AuditBursts,
  log: Logger,
): (news: EnrolmentEvent) => void {
  return ({ what, enrolment, detail }) => {
    const { id, number, project, by, fingerprint, instance } = enrolment;
    const known = {
      ...(fingerprint === undefined ? {} : { fingerprint }),
      ...(instance === undefined ? {} : { instance }),
      ...(detail === undefined ? {} : { detail }),
    };
    const entry: AuditEntry = {
      who: auditActorOf(what, id),
      action: `enroll.${what}`,
      what: number,
      on: [id],
      outcome: what === 'failed' || what === 'alarm' ? 'failed' : 'done',
      detail: `project ${project}${detail === undefined ? '' : `: ${detail}`}`,
    };
    if (what === 'alarm' && !bursts.note(entry, number)) return;
    if (what !== 'alarm') audit.append(entry);
    fire(`enroll/${what}`, { id, number, project, by, ...known });
    const level = what === 'alarm' ? 'warn' : 'info';
    log[level]({ minion: id, code: what }, 'enrolment');
  };
}

/**
 * Returns the actor for an audit record. A machine with a ticket is not yet authenticated as the
 * minion, so it is not the actor.
 */
function auditActorOf(what: EnrolmentEvent['what'], id: string): AuditEntry['who'] {
  if (what === 'signed-in') return { kind: 'minion', name: id };
  const isAsked = what === 'created' || what === 'retired';
  return isAsked ? { kind: 'local', name: 'bridge' } : { kind: 'master', name: '' };
}
