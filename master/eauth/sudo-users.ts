/** `sudo_acl`: who came by sudo may do what `publisher_acl` says [salt/auth/__init__.py]. */
import type { JobsApi } from '../api.ts';
import type { MasterConfig } from '../config/options.ts';
import type { LivePolicy } from '../policy/live-policy.ts';
import { createUserApi, type UserApiParts } from './user-api.ts';

const form = /^sudo_(.+)$/s;

/** Jobs of the local socket; those of `sudo_<user>` are held to that user's rights, if it is set. */
export function holdSudoUsers(
  parts: UserApiParts & { readonly config: MasterConfig; readonly policy: LivePolicy },
): JobsApi {
  const { jobs, config, policy } = parts;
  const jobsOf = ({ user }: { readonly user?: string }): JobsApi => {
    const [, name] = form.exec(user ?? '') ?? [];
    const isHeld = config.eauth.sudoAcl && Object.keys(config.publisherAcl).length > 0;
    if (!isHeld || name === undefined) return jobs;
    const open = async () => ({
      subject: { kind: 'user', name, groups: [] } as const,
      policy: policy.current,
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
