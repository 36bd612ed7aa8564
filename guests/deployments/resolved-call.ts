/** What a deployment is to run, once the catalog has been asked. */

import type { Parameters } from '#heat-bridge';

/** A call that the catalog permits; the policy is asked when it runs. */
export interface DeploymentCall {
  /** `code` and `states`: an entry of `deployments:` in the catalog. */
  readonly kind: 'code' | 'command' | 'states';
  readonly command: string;
  readonly params: Parameters;
}

/** The call, or why there is none: for the author of the template. */
export type ResolvedCall =
  | { readonly ok: true; readonly call: DeploymentCall }
  | { readonly ok: false; readonly reason: string };
