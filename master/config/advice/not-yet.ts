/**
 * Options of Salt's master that are being built. Whoever serves one deletes its line here, and
 * gives it a row in option-table.ts.
 */
import { type AdviceGroup, anyValue } from './group.ts';

export const notYet: readonly AdviceGroup[] = [
  // Files for minions.
  {
    advice: 'the file server has the backend roots (file_roots) alone',
    options: {
      fileserver_backend: anyValue,
      fileserver_events: false,
      fileserver_interval: 3600,
      fileserver_limit_traversal: false,
      fileserver_verify_config: true,
      roots_update_interval: 60,
      top_file: anyValue,
      saltenv: null,
      lock_saltenv: false,
      environment: anyValue,
      renderer_blacklist: [],
      renderer_whitelist: [],
    },
  },
  // Schedule.
  {
    advice: 'let cron or a timer run saltbridge salt',
    options: {
      schedule: {},
    },
  },
  // Users' rights.
  // Other HTTP APIs of Salt's.
  {
    advice: "Salt's HTTP API is served by the options of rest_cherrypy, without the client ssh",
    options: {
      rest_tornado: anyValue,
      rest_wsgi: anyValue,
      netapi_allow_raw_shell: false,
      halite: anyValue,
    },
  },
  // Pillar.
  {
    advice: "pillar is what pillar_roots or the service's pillar provider give; see docs/pillar.md",
    options: {
      pillar_cache: false,
      pillar_cache_backend: 'disk',
      pillar_cache_ttl: 3600,
      pillar_version: 2,
      decrypt_pillar: [],
      decrypt_pillar_default: 'gpg',
      decrypt_pillar_delimiter: ':',
      decrypt_pillar_renderers: ['gpg'],
      gpg_cache: false,
      gpg_cache_backend: 'disk',
      gpg_cache_ttl: 86400,
      gpg_decrypt_must_succeed: true,
      on_demand_ext_pillar: ['libvirt', 'virtkey'],
    },
  },
];
