/** Call that the catalog permits for a deployment. */

import type { Parameters } from '#heat-bridge';

/** Call that the catalog permits. The policy is evaluated when the call runs. */
export interface DeploymentCall {
  /** Source of the call. `code` and `states` refer to an entry of `deployments:` in the catalog. */
  readonly kind: 'code' | 'command' | 'states';
  readonly command: string;
  readonly params: Parameters;
}

/** Permitted call. If none is permitted, the reason for the author of the template. */
export type ResolvedCall =
  | { readonly ok: true; readonly call: DeploymentCall }
  | { readonly ok: false; readonly reason: string };
