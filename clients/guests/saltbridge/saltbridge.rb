# frozen_string_literal: true

# Values of the data space of saltbridge for Puppet and Chef: what this machine's role reads, by the
# names of its own software. An attribute "mysql:password" is ["mysql"]["password"].
#
# Puppet: a custom fact "saltbridge", in a folder of FACTERLIB or of a module's lib/facter.
# Chef:   in client.rb
#           require "/usr/local/lib/saltbridge.rb"
#           start_handlers << Saltbridge::ReadAttributes.new
#           report_handlers << Saltbridge::WriteAttributes.new
#
# salt-call asks the master. SALTBRIDGE_SALT_CALL names another program, with its options;
# SALTBRIDGE_TIMEOUT the seconds that values may take to be written (default 300).

require "json"
require "open3"
require "shellwords"
require "tempfile"

module Saltbridge
  class Error < StandardError; end

  DEFAULT_TIMEOUT = 300

  module_function

  def timeout
    Integer(ENV.fetch("SALTBRIDGE_TIMEOUT", DEFAULT_TIMEOUT.to_s), 10)
  end

  # Attribute => value of all that the role reads; waits until they are written.
  def attributes(seconds = timeout)
    call("saltbridge_data.attributes", "timeout=#{Integer(seconds)}")
  end

  # Attribute => key of all that the role writes, and others read.
  def written
    data = call("pillar.get", "saltbridge:data")
    return {} unless data.is_a?(Hash)

    (data["writes"] || {}).reject { |_, key| (data["unread"] || []).include?(key) }
  end

  # Writes values by their attributes. They are in no argument, which everybody on the machine can
  # read.
  def put(values)
    return {} if values.empty?

    Tempfile.create("saltbridge") do |file|
      file.write(JSON.generate(values))
      file.flush
      call("saltbridge_data.put_file", file.path)
    end
  end

  # {"mysql:password" => "x"} => {"mysql" => {"password" => "x"}}
  def nest(values)
    values.sort.each_with_object({}) do |(attribute, value), tree|
      *path, name = attribute.split(":")
      place = path.reduce(tree) do |branch, step|
        branch[step] = {} unless branch[step].is_a?(Hash)
        branch[step]
      end
      place[name] = value
    end
  end

  def call(function, *arguments)
    program = Shellwords.split(ENV.fetch("SALTBRIDGE_SALT_CALL", "salt-call"))
    options = ["--out=json", "--retcode-passthrough", "--log-level=quiet"]
    output, problem, status = Open3.capture3(*program, *options, function, *arguments)
    unless status.success?
      said = problem.strip.empty? ? output : problem
      raise Error, "#{function}: #{said.strip[0, 2000]}"
    end
    JSON.parse(output).fetch("local")
  rescue JSON::ParserError, KeyError => e
    raise Error, "#{function}: salt-call answers no JSON (#{e.class})"
  rescue SystemCallError => e
    raise Error, "salt-call: #{e.message}"
  end
end

if defined?(Facter) && Facter.respond_to?(:add)
  Facter.add(:saltbridge) do
    setcode { Saltbridge.nest(Saltbridge.attributes) }
  end
end

if defined?(Chef::Handler)
  module Saltbridge
    # Chef only logs what a handler raises; a run without its values fails instead.
    class AttributesHandler < Chef::Handler
      def run_report_safely(run_status)
        run_report_unsafe(run_status)
      end
    end

    # Before the recipes: waits for what the role reads, and sets it in the node, above what cookbooks
    # set.
    class ReadAttributes < AttributesHandler
      def initialize(timeout: Saltbridge.timeout)
        super()
        @timeout = timeout
      end

      def report
        Saltbridge.attributes(@timeout).each do |attribute, value|
          node.force_override!(*attribute.split(":"), value)
        end
      end
    end

    # After a run that succeeded: writes what the role writes and the node has.
    class WriteAttributes < AttributesHandler
      def report
        known = Saltbridge.written.keys.to_h { |name| [name, node.read(*name.split(":"))] }
        Saltbridge.put(known.compact)
      end
    end
  end
end
