import type { ProjectSubject, Subject } from '#acl';
import type { AuditActor } from '../api/index.ts';

/** Converts a subject of the policy to the actor of an audit record. */
export function actorOf(subject: Subject): AuditActor {
  switch (subject.kind) {
    case 'minion':
      return { kind: 'minion', name: subject.id };
    case 'user': {
      const { name, eauth } = subject;
      return { kind: 'user', name, ...(eauth === undefined ? {} : { eauth }) };
    }
    case 'project':
      return { kind: subject.kind, name: projectName(subject) };
    case 'service':
    case 'token':
      return { kind: subject.kind, name: subject.name };
  }
}

/**
 * Returns the name of a project subject. The project's id comes first, because Keystone assigns ids
 * whereas users choose names.
 */
function projectName({ project, user }: ProjectSubject): string {
  const names = [project, user].map(({ name, domain }) => `${domain.name}/${name}`);
  return `${project.id}/${user.id} (${names.join(', ')})`;
}
