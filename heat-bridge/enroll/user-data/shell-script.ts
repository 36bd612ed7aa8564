/** The shell part: for machines that have no `salt_minion` module, and to claim and to report. */
import { type MachinePlan, pkiDirOf, type UserDataPart } from './machine.ts';
import { yamlText } from './minion-config.ts';

/** @param configures false: the module `salt_minion` has configured and started the minion */
export function shellPart(
  plan: MachinePlan,
  { configures }: { configures: boolean },
): UserDataPart {
  const { report, keys, claims } = plan;
  const steps = [
    head(plan),
    posting,
    serviceControl,
    ...(configures ? [installing, configuring(plan), ...(keys ? [seeding(keys)] : [])] : []),
    ...(configures ? ['restart_minion\n'] : []),
    ...(claims ? [claiming(report.statesInstance)] : []),
    'minion_runs || fail "the service $service does not run"\n',
  ];
  return { type: 'text/x-shellscript', name: 'saltbridge.sh', content: steps.join('\n') };
}

function head({ configDir, config, report }: MachinePlan): string {
  return `#!/bin/sh
# Makes this machine a minion of saltbridge, once; what goes wrong is told to the bridge.
umask 077
url=${quote(report.url)}
pin=${quote(`sha256//${report.publicKeyPin}`)}
ticket=${quote(report.ticket)}
id_json=${quote(JSON.stringify(config.id))}
config_dir=${quote(configDir)}
pki_dir=${quote(pkiDirOf(configDir))}
service='salt-minion'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
`;
}

/**
 * The pin is on the bridge's public key, so that it may be reached by any address. Bodies go by
 * file, because arguments can be read by everybody on the machine.
 */
const posting = `# post PATH: sends $work/body; prints the status, 000 where there was no answer
post() {
  if command -v curl >/dev/null 2>&1; then
    curl --silent --insecure --pinnedpubkey "$pin" --max-time 30 \\
      --header 'Content-Type: application/json' --data-binary "@$work/body" \\
      --output "$work/answer" --write-out '%{http_code}' "$url/$1"
  else
    wget --quiet --no-check-certificate --pinnedpubkey="$pin" --timeout=30 --tries=1 \\
      --header='Content-Type: application/json' --post-file="$work/body" \\
      --content-on-error --output-document="$work/answer" "$url/$1"
    case $? in
      0) printf 200 ;;
      8) printf 400 ;;
      *) printf 000 ;;
    esac
  fi
}

# fail REASON: tells the bridge, and ends
fail() {
  echo "saltbridge: $1" >&2
  reason=$(printf '%s' "$1" | tr -cd 'A-Za-z0-9 ._:;,/()=-' | cut -c 1-400)
  printf '{"ticket":"%s","id":%s,"reason":"%s"}' "$ticket" "$id_json" "$reason" >"$work/body"
  for wait in 1 5 15 0; do
    status=$(post failure)
    case $status in 2??|4??) break ;; esac
    sleep "$wait"
  done
  exit 1
}
`;

const serviceControl = `restart_minion() {
  if command -v service >/dev/null 2>&1; then service "$service" restart
  else systemctl restart "$service"
  fi >"$work/log" 2>&1 || fail "the service $service does not start: $(tail -n 1 "$work/log")"
}

minion_runs() {
  if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    systemctl is-active --quiet "$service"
  else
    service "$service" status >/dev/null 2>&1
  fi
}
`;

const installing = `if ! command -v salt-minion >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y salt-minion; }
  elif command -v dnf >/dev/null 2>&1; then dnf install -y salt-minion
  elif command -v yum >/dev/null 2>&1; then yum install -y salt-minion
  elif command -v zypper >/dev/null 2>&1; then zypper --non-interactive install salt-minion
  else false
  fi >"$work/log" 2>&1 || fail "salt-minion cannot be installed: $(tail -n 1 "$work/log")"
fi
`;

function configuring({ config, grains }: MachinePlan): string {
  const more =
    Object.keys(grains).length === 0 ? '' : write('"$config_dir/grains"', yamlText(grains));
  return `mkdir -p "$config_dir" || fail 'the directory of the configuration cannot be made'
${write('"$config_dir/minion"', yamlText(config))}${more}`;
}

function seeding({ publicPem, privatePem }: NonNullable<MachinePlan['keys']>): string {
  return `mkdir -p "$pki_dir" || fail 'the directory of the keys cannot be made'
${write('"$pki_dir/minion.pem"', privatePem)}${write('"$pki_dir/minion.pub"', publicPem)}`;
}

/** The bridge answers 200 once; when that answer is lost, the same claim is refused later. */
function claiming(statesInstance: boolean): string {
  const instance = statesInstance
    ? `instance=$(cat /var/lib/cloud/data/instance-id 2>/dev/null | tr -cd 'A-Za-z0-9._-')
more=$(printf ',"instance":"%s"' "$instance")`
    : 'more=';
  return `seconds=0
until [ -s "$pki_dir/minion.pub" ]; do
  [ "$seconds" -lt 120 ] || fail 'salt-minion has made no key in 120 s'
  sleep 1
  seconds=$((seconds + 1))
done
${instance}
fingerprint=$(grep -v -e '^-' -e '^$' "$pki_dir/minion.pub" | sha256sum | cut -c 1-64)
printf '{"ticket":"%s","id":%s,"fingerprint":"%s"%s}' \\
  "$ticket" "$id_json" "$fingerprint" "$more" >"$work/body"
may_be_done=
for wait in 1 2 5 10 30 30 60 60 60 0; do
  status=$(post claim)
  case $status in
    200) may_be_done=; break ;;
    000) may_be_done=yes ;;
    429|5??) ;;
    *) [ -n "$may_be_done" ] || fail "the claim was refused: $(cat "$work/answer")"; break ;;
  esac
  [ "$wait" -gt 0 ] || fail "the bridge does not answer ($status)"
  sleep "$wait"
done
`;
}

/** Text into a file, as it is. */
function write(file: string, text: string): string {
  const end = 'SALTBRIDGE_END_OF_FILE';
  const body = text.endsWith('\n') ? text : `${text}\n`;
  return `cat >${file} <<'${end}' || fail 'a file cannot be written'\n${body}${end}\n`;
}

/** One word of a shell, whatever is in it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
