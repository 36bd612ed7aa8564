export { DecisionRecorder } from './decisions.ts';
export {
  AuthenticationError,
  AuthorizationError,
  authenticationErrors,
  authorizationErrors,
} from './errors.ts';
export { type ExplainDeps, explainRequest } from './explain.ts';
export {
  type EntityReference,
  type IdentityToken,
  logInBody,
  readToken,
  tokensUrl,
} from './keystone.ts';
export { createDecisionsApi, learnedText } from './learn.ts';
export type { Logins } from './logins.ts';
export {
  type LivePolicy,
  lintConfiguredPolicy,
  logPolicyMode,
  openPolicy,
  type PolicyGate,
} from './policy.ts';
export { TokenWatch } from './tokens.ts';
export { OwnJobs, type UserSession } from './user-api.ts';
export { openUsers, warnAboutBackends } from './users.ts';
