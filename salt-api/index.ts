/** The HTTP API for Salt's clients. */

export { SaltApiError, type SaltApiErrorCode, saltApiErrors } from './errors.ts';
export {
  type SaltApiOptions,
  type SaltApiPlugin,
  type SaltApiPluginContext,
  type SaltApiTls,
  saltApiOptions,
} from './options.ts';
export { createSaltApi, type SaltApi } from './salt-api.ts';
