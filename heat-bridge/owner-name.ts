/** Names of the owners of registrations. */

import type { Subject } from '#acl';

/** Prefix of the owner names of projects. */
const ofProject = 'project:';

/**
 * Returns the owner name for registrations of a subject. All users of a Keystone project have the
 * same owner name. Any other subject has its own.
 */
export function ownerNameOf(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion:${subject.id}`;
    case 'user':
      return `user:${subject.eauth ?? ''}:${subject.name}`;
    case 'project':
      // All users of a project share its registrations.
      return ownerNameOfProject(subject.project.id);
    default:
      return `${subject.kind}:${subject.name}`;
  }
}

/** Returns the owner name that all users of a project share. */
export function ownerNameOfProject(project: string): string {
  return `${ofProject}${project}`;
}

/** Returns the project id in the name of an owner, or `undefined` if the owner is not a project. */
export function projectOfOwner(owner: string): string | undefined {
  return owner.startsWith(ofProject) ? owner.slice(ofProject.length) : undefined;
}
