import type { LiveConfig } from '#config';
import type { InProcessJobsApi } from '../api/index.ts';
import type { LivePolicy } from './policy.ts';
import { createUserApi } from './user-api.ts';
import type { UserApiDeps } from './user-session.ts';

const form = /^sudo_(.+)$/s;

/**
 * Enforces `sudo_acl` for jobs that clients of the local socket start. If the stated user is
 * `sudo_<user>`, the job is limited to the rights of `<user>` [salt/auth/__init__.py].
 */
export function enforceSudoAcl(
  parts: UserApiDeps & { readonly config: LiveConfig; readonly policy: LivePolicy },
): InProcessJobsApi {
  const { jobs, config, policy } = parts;
  const jobsOf = ({ user }: { readonly user?: string }): InProcessJobsApi => {
    const [, name] = form.exec(user ?? '') ?? [];
    const { eauth, publisherAcl } = config.current;
    const isHeld = eauth.sudoAcl && Object.keys(publisherAcl).length > 0;
    if (!isHeld || name === undefined) return jobs;
    const open = async () => ({
      subject: { kind: 'user', name, groups: [] } as const,
      get policy() {
        return policy.current;
      },
      ended: new AbortController().signal,
      stop: () => {},
    });
    return { ...jobs, ...createUserApi(parts, open).jobs };
  };
  return {
    ...jobs,
    publish: (request) => jobsOf(request).publish(request),
    run: (request, signal) => jobsOf(request).run(request, signal),
    batch: (request, signal) => jobsOf(request).batch(request, signal),
  };
}
