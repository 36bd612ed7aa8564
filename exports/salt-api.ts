/**
 * `saltbridge/salt-api`: Salt's HTTP API (`rest_cherrypy`) for a master in this process, or for one
 * that `saltbridge/client` connects to.
 *
 * @packageDocumentation
 */

export {
  createSaltApi,
  type SaltApi,
  SaltApiError,
  type SaltApiErrorCode,
  type SaltApiOptions,
  type SaltApiPlugin,
  type SaltApiPluginContext,
  type SaltApiTls,
} from '#salt-api';
