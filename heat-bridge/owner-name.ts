/** Names of the owners of registrations. */

import type { Subject } from '#acl';

/** Prefix of the owner names of projects. */
const ofProject = 'project:';

/**
 * Returns the name of the owner that a subject acts for. It is unique to the subject or its
 * project.
 */
export function ownerNameOf(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion:${subject.id}`;
    case 'user':
      return `user:${subject.eauth ?? ''}:${subject.name}`;
    case 'project':
      // All users of a project share the registrations of the project.
      return `${ofProject}${subject.project.id}`;
    default:
      return `${subject.kind}:${subject.name}`;
  }
}

/** Returns the project id in an owner name, or `undefined` if the owner is not a project. */
export function projectOfOwner(owner: string): string | undefined {
  return owner.startsWith(ofProject) ? owner.slice(ofProject.length) : undefined;
}
